"""Redacts values of spans: masks secrets in explanations, and shows values only where that is allowed.

Everything that leaves in events, scorecards or logs passes here; patterns are masked also where values are shown, and run
in RE2 because some come from configuration. Values are written as JSON of bounded length and depth.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# RE2's Python wrapper is not annotated; `_compile` is the only place that touches it.

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias, cast

import re2

from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.model.judging import reason_in
from toolgauge.model.outcomes import (
    ERROR_RULE,
    JUDGE_RULE,
    OTHER_ARGUMENTS,
    Difference,
    Errored,
    Outcome,
    Scored,
    Side,
)
from toolgauge.model.plain_words import argument_words, rule_words, with_cause, with_spaces
from toolgauge.otlp.encode import fit_text

MASKED = "[masked]"
_CUT = "…"
# The compared part of two long values; a tenth of the shown text comes before their first difference.
MAX_COMPARED = 8_000
_BEFORE = 10


def _json_pieces(value: Json, redactor: "Redactor", room: int, depth: int, start: str) -> Iterator[str]:
    """Write bit by bit. `room` bounds each text; `start` begins each line, and is empty for text on one line."""
    match value:
        case str():
            yield json.dumps(redactor.masked(value, room + 1)[: room + 1], ensure_ascii=False)
        case dict() | list() if value and depth:
            inner = start and f"{start}  "
            opening, closing = "{}" if isinstance(value, dict) else "[]"
            members = value.items() if isinstance(value, dict) else ((None, member) for member in value)
            before = opening + inner
            for key, member in members:
                yield before if key is None else f"{before}{json.dumps(key[: room + 1], ensure_ascii=False)}: "
                before = f",{inner}" if inner else ", "
                if key is not None and redactor.is_private(key):
                    yield MASKED
                else:
                    yield from _json_pieces(member, redactor, room, depth - 1, inner)
            yield start + closing
        case dict():
            yield "{" + (_CUT if value else "") + "}"
        case list():
            yield "[" + (_CUT if value else "") + "]"
        case int() if value.bit_length() > 256:
            # Python refuses to write an integer of more than 4300 digits.
            yield "a very large number"
        case _:
            yield json.dumps(value)


def side_by_side(expected: str | None, actual: str | None, room: int) -> tuple[str | None, str | None]:
    """Cut two long texts to the part where they begin to differ."""
    if expected is None or actual is None:
        return _window(expected, 0, room), _window(actual, 0, room)
    start = 0
    if max(len(expected), len(actual)) > room:
        differing = (place for place, (left, right) in enumerate(zip(expected, actual, strict=False)) if left != right)
        start = next(differing, min(len(expected), len(actual)))
    return _window(expected, start, room), _window(actual, start, room)


def _window(text: str | None, start: int, room: int) -> str | None:
    if text is None or len(text) <= room:
        return text
    begin = max(0, start - room // _BEFORE)
    end = begin + room
    return (_CUT if begin else "") + text[begin:end] + (_CUT if end < len(text) else "")


MAX_EXPLANATION = 1024
# More of a text is searched than is shown, so that the shown part never ends with half of a secret, which no pattern recognises.
_SEARCHED_BEYOND = 7 * MAX_EXPLANATION
_MAX_SECRET = 512
# This much of the text of an error is searched for its cause.
_MAX_ERROR = 65_536
_ERROR_MEMBER = '{"error": }'
_MAX_VALUE = 200
_MAX_ARGUMENT = 80
_MAX_DIFFERENCES = 20
_MAX_DEPTH = 4
_MAX_REMEMBERED = 1024

_PRIVATE_WORD = (
    r"(?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|passphrase|pwd|credential|authorization|cookie)"
)
_TOKENS = r"|".join(
    (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?",
        r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bxox[a-z]-[A-Za-z0-9-]{10,}",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\bhf_[A-Za-z0-9]{20,}",
    )
)
_SCHEME = r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{8,}"
_ASSIGNED = (
    r"(?i)(\b\w{0,32}"
    + _PRIVATE_WORD
    + r"\w{0,32}[\"']?\s*[:=]\s*)(?:\[masked\]|\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s\"',;}\])]+)"
)
_USER_INFO = r"(://)[^\s/@:]{1,256}:[^\s/@]{1,256}@"
_EMAIL = r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"
_CARD = r"\b(?:\d[ -]?){12,18}\d\b"
_PRIVATE_NAME = r"(?i)" + _PRIVATE_WORD

_GUARD = r"(?i)@|://|-----BEGIN|" + _PRIVATE_WORD + r"|\b(?:bearer|basic)\s|\d(?:[ -]?\d){12}|" + _TOKENS


# RE2's patterns and matches have the methods of Python's that are used here.
_Mask: TypeAlias = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


class Redactor:
    """Writes explanations. `patterns` are RE2 patterns to mask beside the built-in ones (`default` names these)."""

    def __init__(self, show_values: bool, patterns: Sequence[str] = ("default",)) -> None:  # noqa: FBT001 # the one thing a redactor is about
        self.shows_values = show_values
        self._guard = _compile(_GUARD)
        self._private_name = _compile(_PRIVATE_NAME)
        self._built_in: tuple[_Mask, ...] = (
            (_compile(_TOKENS), lambda _found: "[key]"),
            (_compile(_SCHEME), lambda found: found.group(1) + " [token]"),
            (_compile(_USER_INFO), lambda found: found.group(1) + MASKED + "@"),
            (_compile(_ASSIGNED), lambda found: found.group(1) + MASKED),
            (_compile(_EMAIL), lambda _found: "[email]"),
            (_compile(_CARD), lambda found: "[card]" if _is_card(found.group(0)) else found.group(0)),
        )
        self._own: tuple[_Mask, ...] = tuple(_configured(patterns))
        # Most explanations are one of a few; masking one costs more than encoding it.
        self._known_explanation = lru_cache(_MAX_REMEMBERED)(self._explanation)

    def explain(self, outcome: Outcome) -> str:
        """Write the explanation of an outcome, fit for the wire."""
        if not isinstance(outcome, Scored) or not self.shows_values or not outcome.differences:
            return self.reason(outcome)
        shown = "; ".join(self._differences(outcome.differences))
        return self._explanation(f"{outcome.explanation[:MAX_EXPLANATION]} ({shown})")

    def reason(self, outcome: Outcome) -> str:
        """Write the explanation of an outcome without its differences."""
        return (self.error if isinstance(outcome, Errored) else self.mask)(outcome.explanation)

    def differences(self, outcome: Outcome) -> tuple[str, ...]:
        """Write expected beside actual values, one text a difference; nothing where values are hidden."""
        if not isinstance(outcome, Scored) or not self.shows_values:
            return ()
        return tuple(self._explanation(text) for text in self._differences(outcome.differences))

    def mask(self, text: str) -> str:
        """Mask secrets and cut to the length of an explanation."""
        return self._explanation(text) if len(text) > MAX_EXPLANATION else self._known_explanation(text)

    def error(self, text: str, length: int = MAX_EXPLANATION) -> str:
        """Mask secrets in the text of an error and cut it to `length`; its cause stays."""
        return with_cause(self.masked(text, _MAX_ERROR), length)

    def content(self, text: str) -> str:
        """Mask secrets in a whole text of any length, such as what a judge is shown; keeps nothing, in any thread."""
        return self._replaced(fit_text(text, len(text)))

    def is_private(self, name: str) -> bool:
        """Return whether an argument or key has the name of a secret."""
        return self._private_name.search(fit_text(name, _MAX_VALUE)) is not None

    def _explanation(self, text: str) -> str:
        return self.masked(text)[:MAX_EXPLANATION]

    def masked(self, text: str, length: int = MAX_EXPLANATION) -> str:
        """Mask secrets in the beginning of a text, in more of it than the `length` that is shown."""
        limit = length + _SEARCHED_BEYOND
        searched = self._replaced(fit_text(text, limit))
        # Masks are shorter than the masked texts: the place of the cut may have moved into the shown part.
        return searched if len(text) <= limit else searched[:-_MAX_SECRET]

    def json(self, value: Json, room: int, *, depth: int = 6, is_indented: bool = False) -> str:
        """Write a value; the text of a longer value is longer than `room`, and not much longer."""
        filled = 0
        pieces: list[str] = []
        for piece in _json_pieces(value, self, room, depth, "\n" if is_indented else ""):
            pieces.append(piece)
            filled += len(piece)
            if filled > room:
                break
        return self.content("".join(pieces))

    def side(self, difference: Difference, side: Side | None, room: int) -> str | None:
        """Write one side of a difference; `None` for a side without a value."""
        if side is None:
            return None
        if self.is_private(difference.where):
            return MASKED
        match side.value:
            case str(text) if difference.rule == ERROR_RULE:
                return self._quoted_error(text, room)
            case {"error": str(text)} if difference.rule == ERROR_RULE:
                return f'{{"error": {self._quoted_error(text, room - len(_ERROR_MEMBER))}}}'
            case value if difference.rule == JUDGE_RULE:
                return self.masked(with_spaces(reason_in(value)), room)
            case value:
                return self.json(value, room, depth=_MAX_DEPTH)

    def _quoted_error(self, text: str, room: int) -> str:
        quoted = json.dumps(self.error(text, room - 2), ensure_ascii=False)
        excess = len(quoted) - room
        return quoted if excess <= 0 else json.dumps(self.error(text, max(0, room - 2 - excess)), ensure_ascii=False)

    def in_words(self, difference: Difference, room: int) -> str:
        """Write one call of the expected tool with other arguments in words: `3 instead of 2`."""
        expected, actual = (
            side.value if side is not None and isinstance(side.value, dict) else {}
            for side in (difference.expected, difference.actual)
        )

        def compared(name: str) -> str:
            if not self.shows_values:
                return "differs"
            where = Difference(where=f"{difference.where}: {name}", rule=difference.rule)
            wanted, made = (self.side(where, Side(value=side[name]), MAX_COMPARED) for side in (expected, actual))
            wanted, made = side_by_side(wanted, made, room)
            return f"{made} instead of {wanted}"

        return f"{rule_words(OTHER_ARGUMENTS)}: {argument_words(expected, actual, compared)}"

    def _replaced(self, text: str) -> str:
        if self._guard.search(text) is not None:
            for pattern, replace in self._built_in:
                text = pattern.sub(replace, text)
        for pattern, replace in self._own:
            text = pattern.sub(replace, text)
        return text

    def _differences(self, differences: Sequence[Difference]) -> Iterator[str]:
        for difference in differences[:_MAX_DIFFERENCES]:
            if difference.rule == OTHER_ARGUMENTS:
                yield f"{difference.where[:_MAX_VALUE]}: {self.in_words(difference, _MAX_ARGUMENT)}"
                continue
            sides = (difference.actual, difference.expected)
            texts = ["nothing" if one is None else self.side(difference, one, _MAX_VALUE) or "" for one in sides]
            actual, expected = (text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "..." for text in texts)
            # Where a difference is not one to a value, such as an error, no value was expected.
            wanted = "" if difference.expected is None else f"expected {expected}, "
            yield f"{difference.where[:_MAX_VALUE]} ({rule_words(difference.rule)[:_MAX_VALUE]}): {wanted}got {actual}"
        if len(differences) > _MAX_DIFFERENCES:
            yield f"and {len(differences) - _MAX_DIFFERENCES} more"


def _is_card(text: str) -> bool:
    # Luhn's check: without it every long id and every time in nanoseconds would be a card.
    digits = [int(char) for char in reversed(text) if char.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _configured(patterns: Sequence[str]) -> Iterator[_Mask]:
    for index, pattern in enumerate(patterns):
        if pattern == "default":
            continue
        try:
            compiled = _compile(pattern)
        except ValueError as error:
            raise ConfigError(f"`redact.patterns[{index}]` is not a valid RE2 pattern: {error}") from error
        if compiled.search("") is not None:
            raise ConfigError(
                f"`redact.patterns[{index}]` matches the empty text and would mask between all characters",
                hint="use `+` instead of `*`",
            )
        yield compiled, lambda _found: MASKED


def _compile(pattern: str) -> re.Pattern[str]:
    options = re2.Options()
    # RE2 writes to stderr itself otherwise.
    options.log_errors = False
    try:
        return cast("re.Pattern[str]", re2.compile(pattern, options))  # the wrapper has no annotations
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
