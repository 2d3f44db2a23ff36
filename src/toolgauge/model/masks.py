"""Recognizes the masks that redaction processors and SDKs write in place of a value, and JSON that was damaged in transit.

Collected from the Collector's redaction processor (`****`), Bindplane (`[masked_email]`), Presidio (`<EMAIL_ADDRESS>`), Bedrock
(`{EMAIL}`), OpenInference (`__REDACTED__`), Sentry (`[Filtered]`, `[censored]`, `[email]`), Langfuse (`[REDACTED EMAIL]`),
LangSmith (`<email-address>`) and Logfire (`[Scrubbed due to 'password']`). A hash is told from an id only by the schema.

JSON that was damaged in transit differs from JSON that a model wrote wrongly: a limit leaves text that is valid up to its end, a mask text
that is valid but for the mask. Python literals count as JSON here, as readers accept both. Each text is walked once, without recursion.
"""

import re
from typing import Final, Literal, TypeAlias

_STRONG = r"(?:redact|elided)"
# Tools write these as well (`[5 items removed]`): they count only alone, or with the kind of value or the reason.
_WEAK = r"(?:masked|filtered|scrubbed|censored|hidden|removed|anonymi[sz]ed)"
_INNER = r"""[^\[\]<>()"{}]"""
# `[REDACTED]`, `<redacted:email>`, `[masked_email]`, `[Scrubbed due to 'password']`, `***REDACTED***`, `__REDACTED__`.
_MARKED = (
    rf"[\[<(](?:{_INNER}{{0,40}}{_STRONG}{_INNER}{{0,60}}|{_WEAK}(?:[_:]\w{{1,40}}|\sdue\sto\s{_INNER}{{1,40}})?)[\])>]"
    rf"|(?<![*_%])[*_%]{{2,3}}\w{{0,40}}?(?:{_STRONG}|{_WEAK})\w{{0,40}}?[*_%]{{2,3}}"
)
# Kinds of personal data, as detectors name them. A model writes `<UNKNOWN>` and `[NAME]` as well: these are not masks.
_ENTITY = (
    "(?:EMAIL(?:_?ADDRESS)?|PHONE(?:_?NUMBER)?|PERSON(?:_?NAME)?|LOCATION|ADDRESS|STREET_ADDRESS|IP(?:_?ADDRESS)?|URL"
    "|DATE_TIME|DATE_OF_BIRTH|NRP|IBAN(?:_CODE)?|CRYPTO|MEDICAL_LICENSE|PII|SECRET|PASSWORD|TOKEN|API_?KEY|SSN|AGE"
    "|CREDIT_?(?:DEBIT_)?CARD(?:_?NUMBER)?|CARD(?:_?NUMBER)?|PASSPORT(?:_?NUMBER)?|ACCOUNT_?NUMBER"
    "|(?:US|UK|ES|IT|PL|SG|AU|IN|FI|KR|CA)_[A-Z_]{2,40})"
)
# In lower case only kinds that models do not write as placeholders, as they do `[name]` and `<url>`.
_ENTITY_IN_LOWER_CASE = (
    "(?:e-?mail(?:[-_]address)?|ip(?:[-_]address)?|phone(?:[-_]number)?|(?:us[-_])?ssn|credit[-_]?card(?:[-_]number)?"
    "|iban|imei|mac|api[-_]key|pemkey)"
)
# Parts of a date, a time or an address, one of them masked as a whole: `20**-**-**`. `10**-5` is a power.
_PARTS = r"(?=[*./:-]*\d)(?:(?:[\d*]{1,4}[./:-]){1,3}\*{2,4}(?:[./:-][\d*]{1,4}){0,3}|\*{2,4}(?:[./:-][\d*]{1,4}){1,3})(?![\d*])"
# What bullets and hashes leave of a number or an address: `\u2022\u2022\u2022\u20221234`.
_BULLETS = r"[\w.+@-]{0,64}[\u2022\u2588]{3,}[\w.+@\u2022\u2588-]{0,64}|[#]{3,}\d{0,4}"
_DIGEST = "|".join(rf"[{digits}]{{{size}}}" for size in (128, 96, 64, 56, 40, 32) for digits in ("0-9a-f", "0-9A-F"))
_REDACTED = re.compile(rf"\*{{3,}}|(?:{_MARKED})|_{{0,2}}(?:redacted|elided)_{{0,2}}", re.IGNORECASE)
_VALUE = re.compile(
    rf"(?i:{_MARKED})|(?i:redacted|elided)|[\[<{{]{{1,2}}{_ENTITY}(?:_\d+)?[\]>}}]{{1,2}}|[\[<]{_ENTITY_IN_LOWER_CASE}[\]>]"
    # The rest of a value around asterisks; letters alone.
    rf"|{_PARTS}|{_BULLETS}|(?=\S*\*{{3}})\S+"
    r"|[xX]{4,}|[xX]{3,}(?:[- ][xX]{2,})+(?:[- ]?\d{1,4})?|(?:[xX]{4}[- ]?)+\d{1,4}"
)
_HASHED = re.compile(rf"(?=\d*[a-fA-F])(?:{_DIGEST})")
_BEGINS = frozenset("[<(_*%rReE")
_LONGEST = 64

# Outside JSON strings, where nothing but a mask can be meant, digests and letters in upper case count as well; `12****` and
# `****1234` keep a part of the value.
BARE = (
    rf"[\w.+@-]{{0,64}}\*{{3,}}[\w.+@*-]*|{_PARTS}|(?i:{_MARKED})"
    r"|[\[<](?!TRUE|FALSE|NULL|NONE|UNKNOWN)[A-Z][A-Z0-9_ ]+[\]>]"
    rf"|\{{{_ENTITY}(?:_\d+)?\}}|[\[<]{_ENTITY_IN_LOWER_CASE}[\]>]"
    r"|_{0,2}(?i:redacted|elided)\w*|(?:MASKED|FILTERED|HIDDEN|SCRUBBED|CENSORED)\b"
    rf"|[xX]{{3,}}(?:-[xX0-9]+)*\b|{_BULLETS}|\b(?:{_DIGEST})\b"
)
# Masks that may have taken the quote beside them along.
GREEDY = re.compile(rf"(?<!\*)\*{{3,}}+(?:\w{{1,40}}\*{{3,}}+)?|(?i:{_MARKED})")


def is_redacted(text: str) -> bool:
    """Return whether a text as a whole was redacted: `[REDACTED]`, `<elided>`, `***`."""
    # The first character settles it for nearly all texts.
    return text[:1] in _BEGINS and len(text) <= _LONGEST and _REDACTED.fullmatch(text) is not None


def is_mask(text: str) -> bool:
    """Return whether a JSON string is a mask or a partly masked value: `****`, `<EMAIL_ADDRESS>`, `j***@x.com`."""
    return 2 < len(text) <= _LONGEST and _VALUE.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Return whether a text has the form of a hash function's digest in hex, which may be a mask or an id."""
    return _HASHED.fullmatch(text) is not None


# `complete`: a whole object or list; `cut`: valid, and its end is missing.
Extent: TypeAlias = Literal["complete", "cut", "broken"]
# The next token: an entry, which may be missing right behind the bracket; `:` or, behind a mask, the next member.
_Next: TypeAlias = Literal["first", "entry", "colon", "colon or comma", "value", "comma"]

# Shorter texts reach such a length by chance.
_SHORTEST_LIMIT = 64
# trigger.dev; MLflow and Dynatrace; Lucene's longest term. All others that are known are round: New Relic 4095, Azure 8192, Splunk
# 12000, Datadog 25000, Honeycomb 65535, Sentry 1024, Tempo 2048, and what people write into OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT.
_ODD_LIMITS = frozenset((1028, 250, 32766))
# How far before a limit in characters, bytes and UTF-16 units a text may end: the next character takes up to four bytes or two units.
_MOST_SPARED: Final = (0, 3, 1)

_ESCAPE = r"\\(?:['\"\\/abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_DOUBLE = rf"[bu]?\"[^\"\\\x00-\x1f]*+(?:{_ESCAPE}[^\"\\\x00-\x1f]*+)*+"
_SINGLE = rf"[bu]?'[^'\\\x00-\x1f]*+(?:{_ESCAPE}[^'\\\x00-\x1f]*+)*+"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_WORDS = ("true", "false", "null", "True", "False", "None", "NaN", "Infinity", "-Infinity")
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    | (?P<scalar>{_DOUBLE}" | {_SINGLE}' | (?:{_NUMBER}|{"|".join(_WORDS)})(?![\w.*+@-]))
    | (?P<mask>{BARE})
    | (?P<open>[\[{{(]) | (?P<close>[\]}})]) | (?P<colon>:) | (?P<comma>,)""",
    re.VERBOSE,
)
_BEGUN_WORDS = "|".join(sorted({word[:end] for word in _WORDS for end in range(1, len(word))}))
_BEGUN_ESCAPE = r"(?:\\(?:[xuU][0-9a-fA-F]{0,7})?)?"
_BEGUN = re.compile(
    rf"(?:(?:{_DOUBLE}|{_SINGLE}){_BEGUN_ESCAPE}"
    rf"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?)?|{_BEGUN_WORDS})\Z"
)
_PAIRS = {"}": "{", "]": "[", ")": "("}

_NOTE = r"[^\[\](){}<>\"]{0,80}"
_ABOUT_CUTTING = r"(?:truncated|omitted|clipped|trimmed|cut\s?off|more)"
# `...`, `...[truncated 1200 chars]`, `<truncated>`, `... (1200 more)`.
_MARKER = re.compile(
    rf"\s*(?:(?:\.\.\.|\u2026)\s*(?:[\[(<]{_NOTE}[\])>]|{_ABOUT_CUTTING}\b.{{0,60}})?"
    rf"|[\[(<]{_NOTE}{_ABOUT_CUTTING}\b{_NOTE}[\])>])\s*\Z",
    re.IGNORECASE,
)
_LONGEST_MARKER = 200
# Each way to repair a text walks the whole text.
_LONGEST_MASKED = 100_000
_HALF_CHARACTER = re.compile("[\ufffd\ud800-\udfff]")
_BEGINS_JSON = frozenset('{[("')
_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
_MASK_AND_QUOTE = re.compile(rf'({GREEDY.pattern})"')
# The end of a string, and the characters before a value.
_ENDS = re.compile(r'[^"]{0,200}"\s*[,:}\]]')
_BEFORE_VALUES = frozenset(":,[{")
_CONTAINER = re.compile(r"[{\[(]|\"[{\[]")


def was_cut(text: str) -> bool:
    """Return whether a limit cut the JSON text: valid up to its end, with a marker, half a character or a length at which tools cut."""
    stripped = text.strip()
    # Prose is settled by its first character.
    if stripped[:1] not in _BEGINS_JSON:
        return False
    marker = _MARKER.search(stripped, max(0, len(stripped) - _LONGEST_MARKER))
    if marker is not None and _CONTAINER.match(stripped) and extent(stripped[: marker.start()]) != "broken":
        return True
    if not _HALF_CHARACTER.match(text[-1]) and not _has_known_length(text):
        return False
    return extent(stripped) == "cut"


def is_broken_by_mask(text: str) -> bool:
    """Return whether JSON text is valid but for masks: outside strings, or with a quote beside them too few or too many."""
    if text[:1] not in ("{", "[") or len(text) > _LONGEST_MASKED:
        return False
    if _walk(text) == ("complete", True):
        return True
    found = [match.end() for match in GREEDY.finditer(text)]
    if not found:
        return False
    # A mask may have taken the rest of the text along.
    if found[-1] == len(text) and extent(text) == "cut":
        return True
    repaired = (
        GREEDY.sub(r'\g<0>"', text),
        GREEDY.sub(r'"\g<0>', text),
        _MASK_AND_QUOTE.sub(r"\1", text),
        GREEDY.sub(_with_its_quote, text),
    )
    return any(extent(one) == "complete" for one in repaired)


def _with_its_quote(mask: re.Match[str]) -> str:
    """Return a mask with the quote that it took along; one mask of a text may be intact and another not."""
    text = mask.string
    has_end = _ENDS.match(text, mask.end()) is not None
    is_outside = text[max(0, mask.start() - 8) : mask.start()].rstrip()[-1:] in _BEFORE_VALUES
    if is_outside:
        return f'"{mask[0]}' if has_end else mask[0]
    return mask[0] if has_end else f'{mask[0]}"'


def extent(text: str) -> Extent:
    """Return how far JSON text is valid."""
    return _walk(text)[0]


def _has_known_length(text: str) -> bool:
    # Limits count in characters, UTF-8 bytes or UTF-16 units.
    sizes = [len(text)] * 3
    if not text.isascii():
        sizes[1:] = len(text.encode("utf-8", "surrogatepass")), len(text) + len(_TWO_UNITS.findall(text))
    for size in sizes:
        if size >= _SHORTEST_LIMIT and (0 in (size % 100, size % 64, size & (size + 1)) or size in _ODD_LIMITS):
            return True
    # A text of narrow characters fills a limit to the end; one that is somewhat shorter shows the few that are common.
    near = [
        size + spared
        for size, most in zip(sizes, _MOST_SPARED, strict=True)
        if size != sizes[0]
        for spared in range(1, most + 1)
    ]
    return any(
        size > _SHORTEST_LIMIT
        and (0 in (size % 500, size % 1024, size & (size - 1), size & (size + 1)) or size in _ODD_LIMITS)
        for size in near
    )


def _walk(text: str) -> tuple[Extent, bool]:
    """Return how far the text is valid, and whether it has masks outside strings."""
    opened: list[str] = []
    expected: _Next = "value"
    has_mask = False
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            takes_scalar = expected in ("first", "entry", "value") and _BEGUN.match(text, position)
            return ("cut" if takes_scalar else "broken"), has_mask
        position = token.end()
        kind = token.lastgroup
        if kind == "space":
            continue
        if kind == "mask":
            has_mask = True
        following = _following(kind, token[0], expected, opened)
        if following is None:
            return "broken", has_mask
        expected = following
    return ("cut" if opened or expected == "value" else "complete"), has_mask


def _following(kind: str | None, mark: str, expected: _Next, opened: list[str]) -> _Next | None:
    """Return the next token that is allowed; `None` where this one is not."""
    is_object = bool(opened) and opened[-1] == "{"
    takes_value = expected == "value" or (not is_object and expected in ("first", "entry"))
    match kind:
        case "scalar" if takes_value:
            return "comma"
        case "scalar" if expected in ("first", "entry"):
            return "colon"
        # A mask may replace a value, a member, or anything between two members; alone it is not JSON.
        case "mask" if opened:
            return "colon or comma" if is_object and expected in ("first", "entry") else "comma"
        case "open" if takes_value:
            opened.append(mark)
            return "first"
        case "close" if opened and opened[-1] == _PAIRS[mark]:
            if expected not in ("first", "comma", "colon or comma") and mark != ")":
                return None
            opened.pop()
            return "comma"
        case "colon" if expected in ("colon", "colon or comma"):
            return "value"
        case "comma" if opened and expected in ("comma", "colon or comma"):
            return "entry"
        case _:
            return None
