"""Recognizes the masks that redaction processors and SDKs write in place of a value.

Collected from the Collector's redaction processor (`****`), Bindplane (`[masked_email]`), Presidio (`<EMAIL_ADDRESS>`), Bedrock
(`{EMAIL}`), OpenInference (`__REDACTED__`), Sentry (`[Filtered]`, `[censored]`, `[email]`), Langfuse (`[REDACTED EMAIL]`),
LangSmith (`<email-address>`) and Logfire (`[Scrubbed due to 'password']`). A hash is told from an id only by the schema.
"""

import re

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
    # What is left of a value around asterisks; letters alone.
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
