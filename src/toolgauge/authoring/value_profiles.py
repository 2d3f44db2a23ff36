"""Profiles of JSON values: the form of one value, and the form of all values at one place.

A `Profile` may be written to a file: it has spreads of numbers and shared labels, never names, ids, dates or free text.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from toolgauge.export.redact import Redactor
from toolgauge.model.json import Json

_DIGITS = 3
# Smaller figures count as 0, larger ones as this.
_SMALLEST, _LARGEST = 1e-9, 1e18


def coarse(number: float) -> float:
    """Round a finite number to three digits: counts of such numbers stay bounded."""
    bounded = max(-_LARGEST, min(_LARGEST, number))
    return 0.0 if abs(number) < _SMALLEST else float(f"{bounded:.{_DIGITS}g}")


def outwards(number: float, *, up: bool) -> float:
    """Round a bound up or down to two digits; whole numbers up to 10 stay as they are."""
    if number == 0 or (abs(number) <= 10 and number % 1 == 0):
        return number
    step = 10.0 ** (math.floor(math.log10(abs(number))) - 1)
    steps = math.ceil(number / step - 1e-9) if up else math.floor(number / step + 1e-9)
    return float(f"{steps * step:.2g}")


# An identifier is one word with digits (`A-1001`), a name is of a person, a place or a product.
_Varying: TypeAlias = Literal["date", "datetime", "time", "uuid", "email", "url", "phone", "card", "secret"]
# A label is a word of a closed vocabulary (`economy`, `USD`, `in_progress`), a decimal a number that is written as text.
TextForm: TypeAlias = Literal[_Varying, "identifier", "name", "address", "text", "empty", "label", "decimal"]
Form: TypeAlias = Literal["null", "boolean", "integer", "number", "list", "object"] | TextForm

_PATTERNS: Mapping[Form, str] = {
    "date": r"\d{4}-\d{2}-\d{2}",
    "uuid": "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "email": r"[^@\s]+@[^@\s]+",
}
# What differs from one conversation to the next, and has to be left free where one conversation stands for others.
VARYING: frozenset[Form] = frozenset[Form](get_args(TextForm)) - {"empty", "label", "decimal"}
# A label is written down when at least so many conversations, or users, have it.
MIN_SOURCES = 5
_MAX_LABELS, _MAX_SOURCES = 12, 1000
_LONGEST_TOKEN, _LONGEST_LABEL, _LONGEST_DECLARED = 200, 32, 48
# Beyond these an integer is a telephone number, a card or an id.
_LARGEST_FIGURE = 10_000_000

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_PHONE = re.compile(r"\+?\(?\d(?:[ ()./-]{0,3}\d){6,14}")
_NUMERAL = re.compile(r"\d{1,15}")
# Lower case or upper case throughout, joined by `_` or `-`, at the end at most two digits: `v2`, `round_trip`, `USD`.
_LABEL = re.compile(r"(?:[a-z]+(?:[_-][a-z]+)*|[A-Z]+(?:[_-][A-Z]+)*)\d{0,2}|[a-z]+(?:[A-Z][a-z]+)+")
_PHRASE = re.compile(r"[a-z]+(?:[ _/-][a-z]+){0,6}\d{0,2}")
# `742 Evergreen Terrace`, `Hauptstr. 12a`, `10115 Berlin`, `P.O. Box 17`.
_ADDRESS = re.compile(
    r"\d{1,6}[A-Za-z]?,? +[^\W\d].*|[^\W\d][^\d]{2,60}[ .]\d{1,5}[A-Za-z]?(?:[ ,].*)?|(?i:(?:p\. ?o\. ?|post(?:al)? ?)(?:office )?box .*)"
)
_CAPITAL = re.compile(r"[^\W\d_a-z]")
# Last words of the names of arguments with personal values in any form: the last word of `customer_tier` is `tier`.
_PERSONAL = re.compile(
    r"(?:^|[_.\-\s])(?:(?:first|last|middle|given|family|sur|full|user|nick|display|file|path)?names?|users?|customers?|clients?"
    r"|persons?|people|patients?|passengers?|guests?|members?|employees?|owners?|authors?|assignees?|recipients?|senders?|contacts?"
    r"|accounts?|e?mails?|to|cc|bcc|phones?|mobile|fax|address(?:es)?|street|city|town|zip|postcode|ssn|iban|passport|birth_?(?:day|date|place)?|dob"
    r"|gender|religion|diagnos[ie]s|medications?|login|handle|signature|ip|host|notes?|comments?|messages?|body|content|title|subject"
    r"|description|text|prompt|query|question|answer|thought|input)\d*$"
)
_ID_NAME = re.compile(r"(?:^|[_.\-\s])(?:ids?|uuid|guid|number|no|code|ref|reference|sku|pin|zip)\d*$")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REDACTOR = Redactor(show_values=False)


def form_of(value: Json) -> Form:
    """Return the form of a single value."""
    if not isinstance(value, str):
        return _FORMS[type(value)]
    text = value.strip()
    if not text:
        return "empty"
    if len(text) > _LONGEST_TOKEN or "\n" in text:
        return "text"
    for form, pattern in _FIXED_FORMS:
        if pattern.fullmatch(text):
            return form
    masked = _REDACTOR.masked(text)
    if masked != text:
        return "card" if masked == "[card]" else "secret"
    if _PHONE.fullmatch(text) and not _NUMERAL.fullmatch(text):
        return "phone"
    words = text.split()
    if len(words) == 1:
        if len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text):
            return "label"
        if any(letter.isdigit() for letter in text):
            return "identifier"
        return "name" if _CAPITAL.match(text) else "text"
    if _ADDRESS.fullmatch(text):
        return "address"
    is_name = len(words) <= 5 and all(_CAPITAL.match(word) or word in _PARTICLES for word in words)
    return "name" if is_name else "text"


_FORMS: Mapping[type, Form] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "list",
    dict: "object",
}
_FIXED_FORMS: tuple[tuple[TextForm, re.Pattern[str]], ...] = (
    ("date", re.compile(r"\d{4}-\d{2}-\d{2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})")),
    (
        "datetime",
        re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)? ?(?:Z|UTC|[+-]\d{2}:?\d{2})?"),
    ),
    ("time", re.compile(r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp][Mm])?")),
    ("uuid", re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")),
    ("email", re.compile(r"[^@\s]{1,64}@[^@\s]{1,190}\.[^@\s.]{1,60}")),
    ("url", re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://\S+|www\.\S+")),
    ("decimal", re.compile(r"[-+]?(?:\d{1,7}[.,]\d{1,6}|[1-9]\d{0,3}|0)")),
)
# Lower-case words in names, as in `van der Berg`.
_ROMANCE = ("de", "del", "della", "di", "da", "dos", "la", "le", "y")
_PARTICLES = frozenset((*_ROMANCE, "van", "von", "der", "den", "bin", "ibn", "al", "zu", "of"))


def is_personal(name: str) -> bool:
    """Return whether the name of an argument promises a personal value: such values are never written down."""
    return _PERSONAL.search(_HUMP.sub("_", name).lower()) is not None or _REDACTOR.is_private(name)


def is_id_name(name: str) -> bool:
    """Return whether the name of an argument promises an id: its numbers are not figures."""
    return _ID_NAME.search(_HUMP.sub("_", name).lower()) is not None


def is_declared(text: str, definition: str) -> bool:
    """Return whether a tool's own definition spells a label: who wrote the tool made it public, no user did."""
    if not 1 < len(text) <= _LONGEST_DECLARED or not (_LABEL.fullmatch(text) or _PHRASE.fullmatch(text)):
        return False
    return re.search(rf"(?<![\w-]){re.escape(text)}(?![\w-])", definition) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The common features of all values at one place, all fit for a file; `None` where the values share none.

    `form` leaves null out, `pattern` is an RE2 pattern, `low` and `high` are rounded outwards, `distinct` is bounded.
    """

    sources: int
    forms: Mapping[Form, int]
    form: Form | None
    labels: tuple[str, ...] | None
    pattern: str | None
    low: float | None
    high: float | None
    distinct: int


class Profile:
    """Collects the values at one place in bounded memory, in any order; `name` is the argument, or the last key of a path."""

    def __init__(self, name: str = "") -> None:
        self._is_personal = is_personal(name)
        self._is_id = is_id_name(name)
        self._forms: Counter[Form] = Counter()
        self._labels: dict[str, set[str]] | None = {}
        self._low, self._high = math.inf, -math.inf
        self._has_large = False
        self._has_other_dates = False
        self._sources: set[str] = set()
        self._hashes: set[int] = set()

    def add(self, value: Json, source: str) -> None:
        """Add one value; `source` names the user or the conversation that it is of."""
        form = form_of(value)
        if self._is_id and form in ("label", "decimal"):
            form = "identifier"
        self._forms[form] += 1
        if len(self._sources) < _MAX_SOURCES:
            self._sources.add(source)
        if isinstance(value, str | int | float) and len(self._hashes) < _MAX_SOURCES:
            self._hashes.add(hash(value))
        if isinstance(value, str):
            self._has_other_dates = self._has_other_dates or (form == "date" and not _ISO_DATE.fullmatch(value))
            text = value.strip()
            labels = self._labels
            if labels is not None:
                if len(text) > _LONGEST_DECLARED or (text not in labels and len(labels) == _MAX_LABELS):
                    self._labels = None
                else:
                    sources = labels.setdefault(text, set())
                    if len(sources) < MIN_SOURCES:
                        sources.add(source)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._has_large = self._has_large or not abs(value) < _LARGEST_FIGURE
            if not self._has_large:
                figure = coarse(float(value))
                self._low, self._high = min(self._low, figure), max(self._high, figure)

    def summary(self, definition: str = "") -> Summary:
        """Return the features of the values so far; labels in `definition`, the tool's recorded one, need no second source."""
        present: dict[Form, int] = {form: count for form, count in self._forms.items() if form != "null"}
        if present.keys() == {"integer", "number"}:
            present = {"number": sum(present.values())}
        form = next(iter(present)) if len(present) == 1 else None
        is_figure = form in ("integer", "number") and not self._is_id and not self._is_personal and not self._has_large
        pattern = None if form is None or (form == "date" and self._has_other_dates) else _PATTERNS.get(form)
        return Summary(
            sources=len(self._sources),
            forms=dict(sorted(self._forms.items())),
            form=form,
            labels=self._public_labels(present, definition),
            pattern=pattern,
            low=outwards(self._low, up=False) if is_figure else None,
            high=outwards(self._high, up=True) if is_figure else None,
            distinct=len(self._hashes),
        )

    def _public_labels(self, present: Collection[Form], definition: str) -> tuple[str, ...] | None:
        labels = self._labels
        if not labels or not present or any(form in _NEVER for form in present):
            return None
        for text, sources in labels.items():
            is_label = len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text) is not None
            is_shared = len(sources) >= MIN_SOURCES and not self._is_personal and not self._is_id
            if not (is_label and is_shared) and not is_declared(text, definition):
                return None
        return tuple(sorted(labels))


# Forms that have no labels among them, not even where a tool's definition has an example of one.
_NEVER: frozenset[Form] = frozenset[Form]({"boolean", "integer", "number", "list", "object", "decimal", "empty"}) | (
    VARYING - {"text"}
)
