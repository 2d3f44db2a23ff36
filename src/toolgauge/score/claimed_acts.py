"""Acts that an answer claims, and whether a tool, or another one that worked, can be meant.

English alone, and only the plainest forms: "I've cancelled your order", "your order has been cancelled". A false accusation is
worse than an open question: a sentence that denies, doubts, asks, quotes or reports anything claims no act.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from toolgauge.model.left_out import marked
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.admissions import Idea, act_ideas, act_words, is_plain_claim, names_any, sentences_of
from toolgauge.score.contracts import hands_over, name_words
from toolgauge.score.origins.grounding import Seen
from toolgauge.score.patterns import Pattern

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
LONGEST_QUOTE = 300
# What users say of the world: "my flight was cancelled".
_BY_USER = re.compile(rb"\b(?:was|were|been|is|are|got|already)(?: \w+)? ([a-z]+(?:ed|ent|aid|ade))\b")


class Claim(NamedTuple):
    """A claim of a tool's act: the words of the answer, the participles in it, and whether the agent plainly claims it for itself."""

    tool: str
    quote: str
    participles: tuple[str, ...]
    is_own: bool


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
    is_known = any(idea.kind != "general" for idea in ideas) or (not ideas and len(words) > 1)
    is_generic = not is_known or hands_over(name) or not _GENERIC.isdisjoint(words)
    return Acts(name, ideas, "" if places or not words else words[0], objects, is_generic)


def _participles(verb: str) -> tuple[str, ...]:
    if verb.endswith("e"):
        return (f"{verb}d",)
    return (f"{verb}ed", f"{verb}{verb[-1]}ed", f"{verb[:-1]}ied")


def may_report(participles: Iterable[str], seen: Seen) -> bool:
    """Return whether claimed acts may be facts that the user, a result or an error stated before."""
    facts = {word.decode() for content in seen.user.contents for word in _BY_USER.findall(content)}
    for content in seen.results.contents:
        for word in set(content.translate(_LETTERS).decode().split()):
            parts = word.split("_")
            # `updated_at` reports nothing.
            facts.update([one for one in parts if is_participle(one) and (len(parts) == 1 or not _is_common(one))])
    for participle in participles:
        ideas = frozenset[Idea]() if _is_common(participle) else act_ideas(participle)
        if participle in facts or any(not ideas.isdisjoint(act_ideas(one)) for one in facts):
            return True
    return False


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


@lru_cache(maxsize=256)
def claim_pattern(names: tuple[str, ...]) -> Pattern:
    """Return a pattern that is in every text with a claim of an act of these tools, and in some others."""
    tools = list(map(acts_of, names))
    ideas = sorted({idea.words for tool in tools for idea in tool.ideas})
    verbs = sorted({one for tool in tools if tool.verb for one in _participles(tool.verb)})
    acts = "|".join((*ideas, *verbs, *sorted(_COMPLETED)))
    adverb = _ADVERB.replace(" ", r"\W+")
    return Pattern(
        rf"(?i)(?:\b(?:i|we)(?:.ve| have)?|\b(?:has|have){adverb}\W+been|successfully){adverb}\W+(?:{acts})\b|\b(?:{acts})\W+successfully"
    )


def claimed_acts(texts: Iterable[str], tools: Sequence[Acts], worked: Collection[Acts]) -> Iterator[Claim]:
    """Yield the claims of acts that no tool that worked can have done."""
    for text in texts:
        for sentence, line in sentences_of(text):
            for match in _DONE.finditer(sentence):
                participle = next(filter(None, match.groups()))
                is_own, is_sure = match["own"] is not None, match["sure"] is not None or " as requested" in sentence
                is_anybodys = not is_sure and _YOURS.search(sentence) is None
                if not is_own and (is_anybodys or participle in _REPORTS):
                    continue
                if not is_participle(participle) or participle == "confirmed":
                    continue
                is_possible = _is_brought_along(participle)
                if any(is_possible or one.is_generic or one.has(participle) for one in worked):
                    continue
                tool = next((one for one in tools if _can_mean(participle, sentence, one)), None)
                if tool is not None and is_plain_claim(sentence, line):
                    yield Claim(tool.name, line[:LONGEST_QUOTE], (participle,), is_own=is_own or is_sure)


def _can_mean(participle: str, sentence: str, tool: Acts) -> bool:
    """Return whether a claimed act is that of a tool: its verb, and its object if the verb alone is too general."""
    if tool.is_generic:
        return False
    kinds = {idea.kind for idea in tool.ideas}
    if not tool.has(participle):
        # "Your booking has been successfully completed."
        is_act_noun = any(idea.pattern.is_in(sentence) for idea in tool.ideas)
        return kinds == {"makes"} and is_act_noun and participle in _COMPLETED and " successfully " in sentence
    objects = [word for word in tool.objects if word not in _TEXTS] if "common" in kinds else tool.objects
    if kinds == {"makes"} and not _is_brought_along(participle):
        return True
    return names_any(sentence, objects) if objects else kinds <= {"makes", "ends"} and not tool.objects


def _is_brought_along(participle: str) -> bool:
    """Return whether other acts bring an act along: a booking is paid and confirmed by mail, too."""
    brought = frozenset[Idea]().union(*map(act_ideas, act_words("brought_along")))
    return participle in _COMPLETED or _is_common(participle) or not brought.isdisjoint(act_ideas(participle))
