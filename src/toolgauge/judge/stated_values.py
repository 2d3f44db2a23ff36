"""The label or the number that a plain text states as its verdict: "Yes.", "I'd say: Correct - because", "Score: 4/5".

A value counts only where a verdict stands: alone on a line, at the beginning, after a word such as "answer", or as the
last sentence. "No" in "there is no doubt" is none. Text is a model's and may quote spans: every search is linear.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject

_NOT_ON_SCALE = "the score is not on the scale that was asked for"
_TWO_VALUES = "give one verdict: the reply names several"
_CONDITIONAL = "give a verdict without conditions"

# So much of a sentence in front of a statement is looked at: many statements in an endless one would take long.
_MAX_SENTENCE = 300
_TAG = re.compile(r"<(\w{1,40})>")
_END_TAG = re.compile(r"</\w{1,40}>")
_TYPOGRAPHY = {
    **dict.fromkeys((0x2018, 0x2019), "'"),  # single quotation marks
    **dict.fromkeys((0x201C, 0x201D), '"'),  # double ones
    **dict.fromkeys((0x2013, 0x2212), "-"),  # a short dash, and a minus sign
    0x2014: " - ",  # a long dash
    0x2192: "->",  # an arrow
}
_MARKUP = re.compile(r"[*`\"#>$\[\]]|(?<!\w)_+|_+(?!\w)|(?<!\w)'|'(?!\w)")
_BULLET = re.compile(r"^[-+\u2022] ", re.MULTILINE)
_NOUNS = "answer|verdict|score|rating|label|judge?ment|result|conclusion|decision|grade|assessment|evaluation"
# A property with one of these in its name describes a verdict or its scale.
_NO_VERDICT = re.compile(r"\b(?:confidence|min|max|minimum|maximum|threshold)\b")
_EQUALS = r"(?:\s*(?::|=|->)|\s+(?:(?:is|was|of)\b|-(?=\s)))(?:\s*(?::|is\b))?"
_CONCLUSION = (
    r"\b(?:therefore|thus|hence|so|overall|finally|to conclude|in (?:short|summary|conclusion|my opinion))\s?[,:]"
)
_THING = r"(?:this|it|that|(?:this|the) (?:tool )?(?:call|choice|selection|response|argument))"
_FIRST_PERSON = (
    r"\bI(?: would|'d)? (?:say|answer|conclude|judge|think|believe|choose|pick"
    rf"|(?:give|rate|score)(?: {_THING})?(?: as| at| with)?)(?: that)?\s?[:,]?"
)
_DESCRIPTION = rf"(?:^|[.!;] )(?:(?:{_CONCLUSION}|I (?:think|believe)(?: that)?) )?{_THING} (?:is|was)"
_INTERJECTION = r"(?:(?:well|hm+|so|sure|ok|okay|certainly|definitely|absolutely|clearly|indeed)[,.:!]* )?"
# After a verdict comes its end, or its reason.
_ENDS = r"(?=\s*(?:$|[.;:,!)(](?!\d)|-+(?=\s)|(?:because|since|as|due to|points?|stars?)\b))"
_CONDITION = re.compile(
    r"[\s,;:.!)-]*(?:but|if|unless|except|only|or)\b"
    r"|[ \t,;:.!)-]*(?:and|though|although|however|assuming|provided|depending|not"
    r"|I|I'\w+|we|you|let|please|here|sure)\b",
    re.IGNORECASE,
)
# In front of a statement these make it a condition, a quotation or a denial.
_NOT_STATED = re.compile(
    r"\b(?:if|unless|whether|when|could be|might be|may be|suppos\w+|assuming)\b"
    r"|\b(?:not|never|cannot|\w+n't) (?:\w+ )?(?:think|believe|say|agree|conclude|sure|certain|clear|case|true)\b"
    r"|\b(?:said|says|wrote|writes|asks|asked|states|stated|claims|claimed|quotes|quoted|replied|answered"
    r"|told|instructed)\b(?:(?!\b(?:so|then|thus|hence|therefore)\b)[^.;\n]){0,20}$",
    re.IGNORECASE,
)
_NEGATION = (
    r"\b(?:not|never|cannot|neither|nor|hardly|barely|almost|nearly|partly|partially|mostly|somewhat|maybe|perhaps"
    r"|possibly|\w+n't) (?:\w+ ){0,2}"
)
_NUMBER = (
    r"(?<![\w.,/%+-])(?P<number>[+-]?(?:\d{1,9}(?:\.\d{1,20})?|\.\d{1,20}))"
    r"(?:\s?/\s?(?P<most>\d{1,9}(?:\.\d{1,9})?)|\s+(?:out )?of\s+(?P<total>\d{1,9}(?:\.\d{1,9})?)|\s?(?P<percent>%|percent\b))?"
    r"(?!\d|\w|[.,/:]\d|\s*(?:-|~|to|or|and)\s*\.?\d)"
)


class Ambiguous(Struct, frozen=True):
    """A text that states more than one value, or none that can be taken; `problem` is for the judge to read."""

    problem: str


class Scale(Struct, frozen=True):
    """The values that a verdict may have: labels, or numbers.

    `pattern` finds a value, `read` is its value, `None` where it is not on the scale. Numbers also count and date things,
    so that one alone is less of a verdict than a label: `is_numeric`.
    """

    pattern: str
    read: Callable[[re.Match[str]], Json]
    description: str
    is_numeric: bool

    def whole(self, text: str) -> Json:
        """Return the value of a text that is nothing else, "yes." or "4/5"; `None` where it is none."""
        found = re.fullmatch(rf"\s*(?:{self.pattern})[.!\s]*", _plain(text), re.IGNORECASE)
        return None if found is None else self.read(found)


def scale_of(schema: Json) -> Scale | None:
    """Return the scale of one property; `None` where it has none that plain text can state."""
    if not isinstance(schema, dict):
        return None
    labels = schema.get("enum")
    if isinstance(labels, list):
        names = tuple(label for label in labels if isinstance(label, str))
        return _labels(tuple((name, name) for name in names)) if names and len(names) == len(labels) else None
    match schema.get("type"):
        case "boolean":
            return _labels((("true", True), ("yes", True), ("false", False), ("no", False)))
        case "number" | "integer":
            return _numbers(schema)
        case _:
            return None


def normalized(name: str) -> str:
    """Write a name or label as all its spellings are compared."""
    return re.sub(r"[\s_-]+", " ", re.sub(r"\s*/\s*", "/", name)).strip().casefold()


def names_verdict(key: str, name: str) -> bool:
    """Return whether the name of a property ends as that of a verdict does: "final_score", but not "max_score"."""
    spelled = normalized(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key))
    ends = re.search(rf"(?:^| )(?:{_NOUNS}|{re.escape(normalized(name))})$", spelled)
    return ends is not None and not _NO_VERDICT.search(spelled)


def stated_value(text: str, name: str, scale: Scale) -> Json | Ambiguous:
    """Return the value that a text states for the property of this name; `None` where it states none."""
    plain = _plain(text)
    statements = tuple(_statements(plain, name, scale))
    # "Yes, but only if ..." is no verdict; "Yes, I can help you" is an answer to somebody else.
    if any(_CONDITION.match(plain, found.end()) for found in statements):
        return Ambiguous(_CONDITIONAL)
    stated = [scale.read(found) for found in statements]
    if None in stated:
        return Ambiguous(_NOT_ON_SCALE)
    # Another label anywhere makes a reply ambiguous. Numbers count other things, too.
    labels = () if scale.is_numeric else _compiled(scale.pattern).finditer(plain)
    values = [*stated, *map(scale.read, labels)]
    if any(value != values[0] for value in values):
        return Ambiguous(_TWO_VALUES)
    if not stated:
        return None
    if not scale.is_numeric and _compiled(f"{_NEGATION}{scale.pattern}").search(plain):
        return Ambiguous(_CONDITIONAL)
    return stated[0]


def contradicts(text: str, name: str, scale: Scale, value: Json) -> bool:
    """Return whether a text states another value than this one."""
    return any(scale.read(found) != value for found in _statements(_plain(text), name, scale))


def _statements(plain: str, name: str, scale: Scale) -> Iterator[re.Match[str]]:
    value = f"(?:{scale.pattern})"
    # "1." begins a list, and "3 calls" counts: where numbers may mean anything, they need a fraction or a percentage.
    bare = rf"(?=[^\s]*[./%]\d|\S+%|\S+ (?:out )?of \d){value}" if scale.is_numeric else value
    alone = rf"^[ \t]*{value}[ \t]*$" if scale.is_numeric else rf"^[ \t]*{value}[.!]?[ \t]*$"
    noun = rf"\b(?:{_NOUNS}|{re.escape(name)})(?:\s*\([^()\n]{{0,40}}\))?"
    marker = rf"(?:{noun}{_EQUALS}|{_FIRST_PERSON}|{_CONCLUSION}|{_DESCRIPTION})\s*(?:an?\s+)?"
    yield from _compiled(alone).finditer(plain)
    for pattern in (rf"\A\s*{value}\s*\.?\s*\Z", rf"\A\s*{_INTERJECTION}{bare}{_ENDS}", rf"[.!]\s+{bare}[.!]?\s*\Z"):
        if (found := _compiled(pattern).search(plain)) is not None:
            yield found
    # "Score 4/5", without anything between them.
    named = rf"{noun} {bare}{_ENDS}"
    for found in (
        match for pattern in (named, f"{marker}{value}{_ENDS}") for match in _compiled(pattern).finditer(plain)
    ):
        begin = max(0, found.start() - _MAX_SENTENCE)
        sentence = max(begin, *(plain.rfind(mark, begin, found.start()) + 1 for mark in ".!?;\n"))
        if not _NOT_STATED.search(plain[sentence : found.start()]):
            yield found


def _plain(text: str) -> str:
    """Take markup away; a tag such as `<score>` becomes the word in front of a value."""
    tagless = _END_TAG.sub("\n", _TAG.sub(r"\n\1: ", text.translate(_TYPOGRAPHY)))
    # Without long runs of spaces, all searches are linear.
    lines = re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[^\S\n]+", " ", _MARKUP.sub("", tagless)))
    return _BULLET.sub("", lines.strip())


def _labels(labels: tuple[tuple[str, Json], ...]) -> Scale | None:
    values = {normalized(label): value for label, value in labels}
    if len(values) < len(labels) or "" in values:
        return None
    # The longest first: "Generally Yes" is one label, not "Yes".
    words = sorted(values, key=len, reverse=True)
    spelled = "|".join(re.escape(word).replace(r"\ ", r"[\s_-]+").replace("/", r"\s?/\s?") for word in words)
    return Scale(
        pattern=rf"(?<![\w/-])(?P<label>{spelled})(?![\w/]|-\w|'\w)",
        read=lambda found: values.get(normalized(found["label"])),
        description="one of " + ", ".join(label for label, _ in labels),
        is_numeric=False,
    )


def _numbers(schema: JsonObject) -> Scale:
    least, most = (_bound(schema.get(key)) for key in ("minimum", "maximum"))
    is_integer = schema.get("type") == "integer"

    def read(found: re.Match[str]) -> Json:
        value = _scaled(found, least, most)
        if value is None or (least is not None and value < least) or (most is not None and value > most):
            return None
        return value if not is_integer else int(value) if value.is_integer() else None

    ends = f" from {least:g} to {most:g}" if least is not None and most is not None else ""
    return Scale(pattern=_NUMBER, read=read, description=f"a number{ends}", is_numeric=True)


def _scaled(found: re.Match[str], least: float | None, most: float | None) -> float | None:
    """Return the number on the scale: "4/5" is 4 where the scale ends at 5, and 0.8 of one that begins at 0."""
    number = float(found["number"])
    whole = 100.0 if found["percent"] else float(found["most"] or found["total"] or 0)
    if not (found["percent"] or found["most"] or found["total"]):
        return number
    if whole == most and not found["percent"]:
        return number
    if least != 0 or most is None or not 0 <= number <= whole or whole == 0:
        return None
    return most * number / whole


def _bound(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)
