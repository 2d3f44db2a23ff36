"""Whether an answer claims success or admits a failure, and the acts of tools that it claims.

The phrases are data: `answer_phrases.toml` for six languages, `tool_acts.toml` for acts. A false accusation is worse than an open
question: a phrase that may admit a failure, a condition, a quotation or an unknown language is never a claim. Claimed acts are found in
English alone, in the plainest forms: "I've cancelled your order", "your order has been cancelled".
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from toolgauge.model.left_out import marked
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.contracts import hands_over, name_words
from toolgauge.score.origins.grounding import Seen
from toolgauge.score.patterns import Pattern

# So much of an answer is read; a longer one may admit the failure later, and is never a claim.
_MAX_LENGTH = 20_000
# A part of a sentence with so many words, and without two common words of one language, is in an unknown one.
_PART_WORDS = 4
_LATIN = ("english", "german", "french", "spanish", "portuguese")
# The mark before the words of each sentence.
_BEGINNING = " < "
# The name of some words in the data.
_NAMED = re.compile(r"%(\w+)%")
_SHORTEST_WORD = 3
_QUOTED = re.compile(
    r"\"[^\"\n]{1,300}\"|\u201c[^\u201c\u201d\n]{1,300}\u201d|\u201e[^\u201e\u201c\n]{1,300}\u201c"
    r"|\u00ab[^\u00ab\u00bb\n]{1,300}\u00bb|\u300c[^\u300c\u300d\n]{1,300}\u300d|`[^`\n]{1,300}`"
)
_END = re.compile(r"[.!;](?=[\s\"')*]|$)|[\u3002\uff01]|\s[\u2013\u2014-](?=\s)|[*#>|]{2,}")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[?]")
_CLAUSE = re.compile(r"[,;:()](?=\s|$)|\s(?:and|so|und|et|y|e)(?=\s)")
_PART = re.compile(r"[.,:;!?()|>\n\u2192\u3002]|\s[\u2013\u2014-]\s")
# A sign that denies the words beside it: crosses, empty boxes, warnings, and unhappy faces.
_NEGATIVE = re.compile(
    r"[\u2717\u2718\u2715\u2716\u274c\u274e\u26d4\u26a0\u2610\u2612\u2639\u203c\u2757\u23f3\u231b\u23f8\U0001f6ab\U0001f6d1\U0001f534\U0001f44e\U0001f61e"
    r"\U0001f615\U0001f641\U0001f622\U0001f62d\U0001f614\U0001f6a8\U0001f61f\U0001f625\U0001f926]|\[ ?\](?=\s)|[:;=]-?\("
    r"|\.\.\.|\u2026|[:=]\s*(?:false|no|none|not|null|nil|n|n/a|never|off|unknown|failed|failure|negative|0)\b",
    re.IGNORECASE,
)
_STATES = Pattern(" (?:pending|sold out|expired|declined|denied|rejected|pendiente|pendente|en attente|ausstehend) ")
_KANA = re.compile(r"[\u3041-\u30ff]")
_OTHER_SCRIPT = re.compile(r"[\u0370-\u1dff\u2c00-\u2dff\u3400-\ud7ff]")

_Kind: TypeAlias = Literal["makes", "ends", "common", "general", "object"]
Reading: TypeAlias = Literal["admits", "claims", "unclear", "silent"]


class _PhraseData(Struct):
    words: dict[str, str]
    # By language and kind.
    languages: dict[str, dict[str, list[str]]]
    irregular: dict[str, str]


class Idea(Struct, frozen=True):
    """An act or object of tools, with the words that name it."""

    kind: _Kind
    words: str
    japanese: str

    def is_in(self, text: str) -> bool:
        """Return whether a text has the act or object."""
        return _spaced(self.words, self.japanese).is_in(text)


class _ActData(Struct):
    world: str
    success: str
    success_japanese: str
    aside: str
    bare: str
    bare_japanese: str
    texts: str
    filling: str
    generic: str
    irregular: str
    reports: str
    brought_along: str
    completed: str
    ideas: list[Idea]


_DATA = files("toolgauge.score")


@cache
def _phrase_data() -> _PhraseData:
    return msgspec.toml.decode(_DATA.joinpath("answer_phrases.toml").read_bytes(), type=_PhraseData)


_ACT_DATA = msgspec.toml.decode(_DATA.joinpath("tool_acts.toml").read_bytes(), type=_ActData)


# Each kind of phrases when it is first asked for: all take 20 ms.
@cache
def _compiled(kind: str, languages: tuple[str, ...], between: str) -> Pattern:
    data = _phrase_data()
    phrases = "|".join(phrase for one in languages for phrase in data.languages[one].get(kind, ("<>",)))
    while "%" in phrases:
        phrases = _NAMED.sub(lambda name: data.words[name[1]], phrases)
    return Pattern(f"{between}(?:{phrases}){between}")


class _Phrases:
    """The phrases of some languages, with the character that stands between words."""

    def __init__(self, languages: tuple[str, ...], between: str) -> None:
        self._languages, self._between = languages, between
        data = _phrase_data().languages
        self.common = [frozenset("|".join(data[one].get("common", ())).split("|")) for one in languages]

    def of(self, kind: str, *languages: str) -> Pattern:
        """Return the phrases of a kind: of all these languages, or of one."""
        return _compiled(kind, languages or self._languages, self._between)

    def is_claim(self, sentence: str) -> bool:
        """Return whether a sentence claims success: in one language, and without a hedge of that language."""
        both = (sentence, self.of("harmless").removed_from(sentence))
        # "Due to a change" does not count as a claim in French.
        words = set(sentence.split())
        known = [len(common & words) for common in self.common]
        languages = [one for one, count in zip(self._languages, known, strict=True) if count == max(known)]
        found = (
            of
            for of in languages
            for one in both
            if self.of("claims", of).is_in(one) and not self.of("hedges", of).is_in(one)
        )
        return next(found, None) is not None

    def is_explained(self, clause: str) -> bool:
        """Return whether a clause is a claim or a known detail, and so hides no admission."""
        plain = self.of("harmless").removed_from(clause)
        is_known = " ? " in clause or not self.of("verbs").is_in(plain) or self.is_claim(clause)
        return is_known or self.of("details").is_in(plain)


_phrases_of = cache(_Phrases)


def read_answer(text: str) -> Reading:
    """Return whether an answer admits a failure, claims success, or may do either; "silent" when it does neither."""
    # Compatibility forms may be up to 18 times as long.
    text = unicodedata.normalize("NFKC", text[: _MAX_LENGTH + 1])
    is_whole, text = len(text) <= _MAX_LENGTH, text[:_MAX_LENGTH]
    sentences = [(_phrases(sentence), sentence) for sentence in _sentences(text)]
    plain = [(phrases, phrases.of("harmless").removed_from(sentence)) for phrases, sentence in sentences]
    if any(phrases.of("admits").is_in(sentence) for phrases, sentence in plain):
        return "admits"
    # A request for missing data, another way or a condition admits that nothing is done yet, but not beside a claim.
    hints = any(phrases.of("hints").is_in(sentence) for phrases, sentence in plain)
    unquoted = _QUOTED.sub(" quotation ", text)
    claimed = _claims(unquoted)
    if not claimed and (hints or any(" ? " in one or phrases.of("conditions").is_in(one) for phrases, one in plain)):
        return "admits"
    # An admission in an unknown language, or beyond what is read, would not be found.
    understood = is_whole and _is_understood(text, claimed)
    explained = all(_phrases(clause).is_explained(clause) for clause in _sentences(_CLAUSE.sub("\n", unquoted)))
    # A negative sign or value anywhere beside a claim makes it uncertain.
    if not understood or (claimed and (hints or not explained or _NEGATIVE.search(text))):
        return "unclear"
    return "claims" if claimed else "silent"


def may_admit(text: str) -> bool:
    """Return whether an answer may admit that something could not be found out; the state of a thing that was found admits nothing."""
    text = unicodedata.normalize("NFKC", text[: _MAX_LENGTH + 1])
    sentences = [(_phrases(one), _STATES.removed_from(one)) for one in _sentences(text)]
    words = [_without_accents(word.lower()) for word in _WORD.findall(text)]
    is_known = any(len(common.intersection(words)) > 1 for common in _phrases_of(_LATIN, " ").common)
    is_read = len(text) <= _MAX_LENGTH and (is_known or _KANA.search(text)) and not _OTHER_SCRIPT.search(text)
    sentences = [(one.of("admits"), one.of("harmless").removed_from(plain)) for one, plain in sentences]
    return not is_read or any(admits.is_in(plain) for admits, plain in sentences)


def claims(text: str) -> tuple[str, ...]:
    """Return the sentences that claim success, as words; a quotation claims nothing, and neither does a question."""
    text = unicodedata.normalize("NFKC", text[:_MAX_LENGTH])[:_MAX_LENGTH]
    return _claims(_QUOTED.sub(" quotation ", text))


def _claims(unquoted: str) -> tuple[str, ...]:
    sentences = _sentences(unquoted)
    return tuple(sentence for sentence in sentences if " ? " not in sentence and _phrases(sentence).is_claim(sentence))


def sentences_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of an answer as words, each with its line; quotations are left out, and scripts without spaces."""
    text = unicodedata.normalize("NFKC", text[:_MAX_LENGTH])[:_MAX_LENGTH]
    for line in _QUOTED.sub(" quotation ", text).splitlines():
        yield from [(one, line.strip()) for one in _sentences(line) if one.startswith(_BEGINNING)]


def is_plain_claim(sentence: str, line: str) -> bool:
    """Return whether a sentence claims success in plain English, and nothing in its line denies or doubts that."""
    phrases = _phrases(sentence)
    plain = phrases.of("harmless").removed_from(sentence)
    doubts = map(phrases.of, ("admits", "hints", "conditions"))
    is_doubted = " ? " in sentence or any(one.is_in(plain) for one in doubts) or _NEGATIVE.search(line) is not None
    return not is_doubted and phrases.is_claim(sentence)


def names_any(sentence: str, words: Collection[str]) -> bool:
    """Return whether a sentence has any of a tool's words in some form: "booked" and "booking" of `book`."""
    beginnings = tuple(word[: max(4, len(word) - 1)] for word in words if len(word) >= _SHORTEST_WORD)
    irregular = _phrase_data().irregular
    return any(irregular.get(word, word).startswith(beginnings) for word in sentence.split())


def _phrases(sentence: str) -> _Phrases:
    return _phrases_of(_LATIN, " ") if sentence.startswith(_BEGINNING) else _phrases_of(("japanese",), "")


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences in lower case, one space around each word; Japanese ones also without spaces."""
    text = text.lower().replace("\u2019", "'").replace("e-mail", "email")
    for sentence in _END.sub("\n", text.replace("?", " ? \n")).splitlines():
        if _KANA.search(sentence):
            yield "".join(sentence.split())
        words = _WORD.findall(_without_accents(sentence))
        if words:
            yield f"{_BEGINNING}{' '.join(words)} > "


def _is_understood(text: str, claimed: Sequence[str]) -> bool:
    """Return whether each part of a sentence that is long enough to show its language is in one with phrases."""
    for part in _PART.split(text.replace("\u2019", "'")):
        if _KANA.search(part):
            continue
        if _OTHER_SCRIPT.search(part):
            return False
        words = _WORD.findall(part)
        # Names begin with capitals, and show no language.
        if sum(word[0].islower() for word in words) >= _PART_WORDS:
            folded = [_without_accents(word.lower()) for word in words]
            is_known = any(len(common.intersection(folded)) > 1 for common in _phrases_of(_LATIN, " ").common)
            if not is_known and not any(f" {' '.join(folded)} " in claim for claim in claimed):
                return False
    return True


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))


_ACT_WORDS = "|".join(one.words for one in _ACT_DATA.ideas if one.kind != "object")
_ASIDES = Pattern(f" {_ACT_DATA.aside}(?:{_ACT_WORDS}) ")
_BARE = Pattern(f"{_ACT_DATA.bare}|{_ACT_DATA.bare_japanese}")


def _ideas_in(text: str) -> frozenset[Idea]:
    return frozenset(idea for idea in _ACT_DATA.ideas if idea.is_in(text))


@lru_cache(maxsize=4096)
def act_ideas(word: str) -> frozenset[Idea]:
    """Return the acts that a word names."""
    return frozenset(idea for idea in _ideas_in(f" {word} ") if idea.kind != "object")


@cache
def _spaced(words: str, japanese: str) -> Pattern:
    return Pattern(f" (?:{words}) |{japanese}")


@lru_cache(maxsize=256)
def _world(name: tuple[str, ...]) -> Pattern:
    nouns = "|".join(noun for noun in _ACT_DATA.world.split("|") if noun not in name)
    return Pattern(f" (?:{nouns})s? (?:was|were|is|are|has|have|had|got|ha|han|fue|se|foi|a|est|wurde|ist|hat) ")


def is_about(claim: str, name: Sequence[str], worked: Collection[str]) -> bool:
    """Return whether a claim counts for a failed tool, by the words of its name and those of the tools that worked."""
    # It names the act of the failed tool, or its object as a success; or no other tool worked and the claim is bare ("All done!").
    # "I have notified our engineers" names another act: it does not claim that `charge_card` charged the card.
    if not worked and _BARE.is_in(claim):
        return True
    # "A ticket about the charge" names a topic, and "a callback to charge the card" a purpose.
    text = _ASIDES.removed_from(claim)
    of_tool, theirs, found = (_ideas_in(one) for one in (f" {'  '.join(name)} ", f" {'  '.join(worked)} ", text))
    # A sentence with another act is about that one, and one whose subject is the world around the tool about the world.
    has_other_act = any(idea.kind in ("ends", "common") for idea in found - of_tool - theirs)
    if has_other_act or _world(tuple(name)).is_in(claim):
        return False
    # By convention a name without a known act begins with its act.
    ideas = {word: _ideas_in(f" {word} ") for word in name}
    has_act = any(idea.kind != "object" for idea in of_tool)
    verbs = {word for word in name if any(idea.kind in ("makes", "ends") for idea in ideas[word])}
    own_acts = (verbs if has_act else set(name[:1])).difference(worked)
    own = found & of_tool - theirs
    if any(idea.kind in ("makes", "ends") for idea in own) or names_any(text, own_acts):
        return True
    objects = {word for word in name if all(idea.kind == "object" for idea in ideas[word])}
    objects = objects.difference(worked, own_acts)
    acted = any(idea.kind != "object" for idea in found & of_tool)
    if any(idea.kind == "object" for idea in own) or names_any(text, objects):
        makes = has_act and all(idea.kind in ("makes", "object") for idea in of_tool)
        return acted or (makes and _spaced(_ACT_DATA.success, _ACT_DATA.success_japanese).is_in(text))
    return acted and not objects and not worked


_ADVERB = "(?: (?:now|just|also|successfully|both|all|officially|fully|then|finally|gone ahead and|already))*"
# Acts of "we", and passives without "successfully", may be anybody's unless they are about something of the user's.
_DONE = re.compile(
    rf" (?:i|i've)(?: have)?{_ADVERB} (?P<own>[a-z]+)| (?:has|have){_ADVERB} been(?:{_ADVERB} successfully){_ADVERB} (?P<sure>[a-z]+)"
    rf"| (?:we|we've)(?: have)?{_ADVERB} ([a-z]+)| (?:has|have){_ADVERB} been{_ADVERB} ([a-z]+)"
    rf"| (?:was|were|is|are){_ADVERB} successfully ([a-z]+)|(?<!you've)(?<!you have) successfully ([a-z]+)| ([a-z]+) successfully "
)
_YOURS = re.compile(r" yours? | you | you've ")
_TEXTS, _FILLING, _GENERIC, _IRREGULAR, _REPORTS, _COMPLETED, _BROUGHT_ALONG = (
    frozenset(words.split())
    for words in (
        *(_ACT_DATA.texts, _ACT_DATA.filling, _ACT_DATA.generic, _ACT_DATA.irregular, _ACT_DATA.reports),
        *(_ACT_DATA.completed, _ACT_DATA.brought_along),
    )
)
_LETTERS = bytes(code if 97 <= code <= 122 or code == 95 else 32 for code in range(256))
LONGEST_QUOTE = 300
# Words of users about the world: "my flight was cancelled".
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
        if any(idea.is_in(f" {participle} ") for idea in self.ideas):
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
        is_act_noun = any(idea.is_in(sentence) for idea in tool.ideas)
        return kinds == {"makes"} and is_act_noun and participle in _COMPLETED and " successfully " in sentence
    objects = [word for word in tool.objects if word not in _TEXTS] if "common" in kinds else tool.objects
    if kinds == {"makes"} and not _is_brought_along(participle):
        return True
    return names_any(sentence, objects) if objects else kinds <= {"makes", "ends"} and not tool.objects


def _is_brought_along(participle: str) -> bool:
    """Return whether other acts bring an act along: a booking is paid and confirmed by mail, too."""
    brought = frozenset[Idea]().union(*map(act_ideas, _BROUGHT_ALONG))
    return participle in _COMPLETED or _is_common(participle) or not brought.isdisjoint(act_ideas(participle))
