"""Acts that an answer tells as done, and whether a tool, or another one that worked, can be meant.

English alone, and only the plainest forms: "I've cancelled your order", "your order has been cancelled". A false accusation is
worse than an open question: a sentence that denies, doubts, asks, quotes or reports anything tells of no act.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from toolgauge.model.left_out import EarlierValues, marked
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.admissions import Idea, act_ideas, act_words, names_any, plain_claims
from toolgauge.score.criterion import hands_over, name_words
from toolgauge.score.origins.grounding import Seen

_ADVERB = "(?: (?:now|just|also|successfully|both|all|officially|fully|then|finally|gone ahead and|already))*"
# What "we" did, and passives without "successfully", may be anybody's unless they are about something of the user's.
_DONE = re.compile(
    rf" (?:i|i've)(?: have)?{_ADVERB} (?P<own>[a-z]+)| (?:has|have){_ADVERB} been(?:{_ADVERB} successfully){_ADVERB} (?P<sure>[a-z]+)"
    rf"| (?:we|we've)(?: have)?{_ADVERB} ([a-z]+)| (?:has|have){_ADVERB} been{_ADVERB} ([a-z]+)"
    rf"| (?:was|were|is|are){_ADVERB} successfully ([a-z]+)|(?<!you've)(?<!you have) successfully ([a-z]+)| ([a-z]+) successfully "
)
_YOURS = re.compile(r" yours? | you | you've ")
_TEXTS, _FILLING, _GENERIC = act_words("texts"), act_words("filling"), act_words("generic")
_IRREGULAR, _REPORTS, _COMPLETED = act_words("irregular"), act_words("reports"), act_words("completed")
_LETTERS = bytes(code if 97 <= code <= 122 or code == 95 else 32 for code in range(256))
_LONGEST_QUOTE = 300
# What users say of the world: "my flight was cancelled".
_BY_USER = re.compile(rb"\b(?:was|were|been|is|are|got|already)(?: \w+)? ([a-z]+(?:ed|ent|aid|ade))\b")


class Told(Struct, frozen=True, gc=False):
    """An act told as done: the participle, its sentence as words, and the line of the answer that it is from."""

    participle: str
    sentence: str
    line: str


class Acts(Struct, frozen=True):
    """What a tool does, by its name: known acts, else the verb that its name begins with, and its objects."""

    name: str
    ideas: frozenset[Idea]
    verb: str
    objects: tuple[str, ...]
    is_generic: bool

    def has(self, participle: str) -> bool:
        """Return whether a participle names the act."""
        if any(idea.pattern.is_in(f" {participle} ") for idea in self.ideas):
            return is_participle(participle)
        return bool(self.verb) and participle in _participles(self.verb)


# Agents offer the same few tools all day long.
@lru_cache(maxsize=1024)
def acts_of(name: str) -> Acts:
    """Read the name of a tool."""
    words = name_words(name)
    places = [place for place, word in enumerate(words[:2]) if act_ideas(word)]
    first = places[0] if places else 0
    ideas = act_ideas(words[first]) if places else frozenset[Idea]()
    objects = tuple(
        word for place, word in enumerate(words) if place != first and len(word) > 2 and word not in _FILLING
    )
    is_unknown = not ideas.difference(idea for idea in ideas if idea.kind == "general") and (
        bool(ideas) or len(words) < 2
    )
    is_generic = is_unknown or hands_over(name) or not _GENERIC.isdisjoint(words)
    return Acts(name, ideas, "" if places or not words else words[0], objects, is_generic)


def _participles(verb: str) -> tuple[str, ...]:
    if verb.endswith("e"):
        return (f"{verb}d",)
    return (f"{verb}ed", f"{verb}{verb[-1]}ed", f"{verb[:-1]}ied")


def reported(results: Iterable[bytes], user: Iterable[bytes]) -> set[str]:
    """Return the participles by which results and users report facts, of which an answer may tell, too."""
    found = {word.decode() for content in user for word in _BY_USER.findall(content)}
    for content in results:
        for word in set(content.translate(_LETTERS).decode().split()):
            parts = word.split("_")
            # `updated_at` reports nothing.
            found.update([one for one in parts if is_participle(one) and (len(parts) == 1 or not _is_common(one))])
    return found


def reports_of(participle: str) -> Iterator[bytes]:
    """Yield all names of what a participle reports: itself, and the act that it shares with others ("canceled", "cancelled")."""
    yield participle.encode()
    if not _is_common(participle):
        for idea in act_ideas(participle):
            yield idea.pattern.text.encode()


def may_report(participles: Iterable[str], seen: Seen, earlier: EarlierValues | None) -> bool:
    """Return whether an act that is told may be a fact that the user, a result or an error told before."""
    facts = {one for word in reported(seen.results.contents, seen.user.contents) for one in reports_of(word)}
    told = [one for participle in participles for one in reports_of(participle)]
    return any(one in facts or (earlier is not None and earlier.has_word(marked("reported", one))) for one in told)


def worked_earlier(name: str, trajectory: Trajectory) -> bool:
    """Return whether a tool worked in an earlier trace of the conversation."""
    return trajectory.earlier is not None and trajectory.earlier.has_word(
        marked("worked", name.encode("utf-8", "replace"))
    )


def _is_common(participle: str) -> bool:
    return any(idea.kind in ("common", "general") for idea in act_ideas(participle))


def is_participle(word: str) -> bool:
    """Return whether a word has the form of a participle."""
    return word.endswith("ed") or word in _IRREGULAR


def told_acts(text: str) -> Iterator[Told]:
    """Yield the acts that an answer tells as done."""
    for sentence, line in plain_claims(text):
        for match in _DONE.finditer(sentence):
            participle = next(filter(None, match.groups()))
            is_anybodys = match["sure"] is None and _YOURS.search(sentence) is None
            if match["own"] is None and (is_anybodys or participle in _REPORTS):
                continue
            if is_participle(participle) and participle != "confirmed":
                yield Told(participle, sentence, line[:_LONGEST_QUOTE])


def can_mean(told: Told, tool: Acts) -> bool:
    """Return whether a told act is that of a tool: its verb, and its object where the verb alone says too little."""
    if tool.is_generic:
        return False
    kinds = {idea.kind for idea in tool.ideas}
    if not tool.has(told.participle):
        # "Your booking has been successfully completed."
        is_act_noun = any(idea.pattern.is_in(told.sentence) for idea in tool.ideas)
        return (
            kinds == {"makes"} and is_act_noun and told.participle in _COMPLETED and " successfully " in told.sentence
        )
    objects = [word for word in tool.objects if word not in _TEXTS] if "common" in kinds else tool.objects
    if kinds == {"makes"} and not _is_brought_along(told.participle):
        return True
    return names_any(told.sentence, objects) if objects else kinds <= {"makes", "ends"} and not tool.objects


def _is_brought_along(participle: str) -> bool:
    """Return whether other acts bring an act along: what is booked is paid and confirmed by mail, too."""
    brought = frozenset[Idea]().union(*map(act_ideas, act_words("brought_along")))
    return _is_common(participle) or not brought.isdisjoint(act_ideas(participle))


def may_mean(told: Told, worked: Collection[Acts]) -> bool:
    """Return whether a told act may be that of a tool that worked, or be brought along by one."""
    if not worked:
        return False
    if told.participle in _COMPLETED or _is_brought_along(told.participle):
        return True
    return any(tool.is_generic or tool.has(told.participle) for tool in worked)
