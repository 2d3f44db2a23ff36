"""Redaction of a span's values: explanations have masked secrets, values appear only where they may.

Explanations name arguments and what differs in kind. Everything that leaves in events, scorecards or logs
passes here; patterns are masked also where values are shown, and run in RE2 because some come from configuration.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# RE2's Python wrapper is not annotated; `_compile` is the only place that touches it.

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias, cast

import re2

from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Scored, Side
from toolgauge.otlp.encode import fit_text

MAX_EXPLANATION = 1024
# Text is cut here before it is searched. It must be well above what is shown, so that
# no half of a secret, which no pattern recognises, stands at the end of the shown part.
_MAX_SEARCHED = 8 * MAX_EXPLANATION
_MAX_SECRET = 512
_MAX_VALUE = 200
_MAX_DIFFERENCES = 20
_MAX_DEPTH = 4
_MAX_MEMBERS = 20
_MAX_REMEMBERED = 1024
MASKED = "[masked]"

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
    r"(?i)(\b\w{0,32}" + _PRIVATE_WORD + r"\w{0,32}[\"']?\s*[:=]\s*)(?:\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s\"',;}\])]+)"
)
_USER_INFO = r"(://)[^\s/@:]{1,256}:[^\s/@]{1,256}@"
_EMAIL = r"[A-Za-z0-9._%+'-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"
_CARD = r"\b(?:\d[ -]?){12,18}\d\b"
_PRIVATE_NAME = r"(?i)" + _PRIVATE_WORD

_GUARD = r"(?i)@|://|-----BEGIN|" + _PRIVATE_WORD + r"|\b(?:bearer|basic)\s|\d(?:[ -]?\d){12}|" + _TOKENS


class _Found(Protocol):
    def group(self, index: int, /) -> str: ...


class _Pattern(Protocol):
    def search(self, text: str) -> _Found | None: ...

    def sub(self, repl: Callable[[_Found], str], text: str) -> str: ...


_Mask: TypeAlias = tuple[_Pattern, Callable[[_Found], str]]


class Redactor:
    """Writes explanations. `patterns` are RE2 patterns to mask beside the built-in ones (`default` names those)."""

    def __init__(self, show_values: bool, patterns: Sequence[str] = ("default",)) -> None:  # noqa: FBT001 # the one thing a redactor is about
        self.shows_values = show_values
        self._guard = _compile(_GUARD)
        self._private_name = _compile(_PRIVATE_NAME)
        self._built_in = _built_in_masks()
        self._own: tuple[_Mask, ...] = tuple(_configured(patterns))
        self._remembered: dict[str, str] = {}

    def explain(self, outcome: Outcome) -> str:
        """Write the explanation of an outcome, fit for the wire."""
        match outcome:
            case Scored():
                return self._explain_score(outcome)
            case NotEvaluated(explanation=explanation):
                return self.mask(explanation)
            case Errored(message=message):
                return self.mask(message)

    def mask(self, text: str) -> str:
        """Mask secrets and cut to the length of an explanation."""
        if len(text) > MAX_EXPLANATION:
            return self._explanation(text)
        # Most explanations are one of a few; masking one costs more than encoding it.
        known = self._remembered.get(text)
        if known is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            known = self._remembered[text] = self._explanation(text)
        return known

    def content(self, text: str) -> str:
        """Mask secrets in a whole text of any length, such as what a judge is shown; keeps nothing, in any thread."""
        return self._replaced(fit_text(text, len(text)))

    def is_private(self, name: str) -> bool:
        """Return whether the name of an argument or of a key is one of secrets."""
        return self._private_name.search(fit_text(name, _MAX_VALUE)) is not None

    def _explanation(self, text: str) -> str:
        return self.masked(text)[:MAX_EXPLANATION]

    def masked(self, text: str) -> str:
        """Mask secrets in the beginning of a text, in more of it than a line shows."""
        searched = self._replaced(fit_text(text, _MAX_SEARCHED))
        # Masks are shorter than what they mask: the place of the cut may have moved into the shown part.
        return searched if len(text) <= _MAX_SEARCHED else searched[:-_MAX_SECRET]

    def _replaced(self, text: str) -> str:
        if self._guard.search(text) is not None:
            for pattern, replace in self._built_in:
                text = pattern.sub(replace, text)
        for pattern, replace in self._own:
            text = pattern.sub(replace, text)
        return text

    def _explain_score(self, outcome: Scored) -> str:
        if not self.shows_values or not outcome.differences:
            return self.mask(outcome.explanation)
        shown = "; ".join(self._differences(outcome.differences))
        return self._explanation(f"{outcome.explanation[:MAX_EXPLANATION]} ({shown})")

    def _differences(self, differences: Sequence[Difference]) -> Iterator[str]:
        for difference in differences[:_MAX_DIFFERENCES]:
            where = difference.where[:_MAX_VALUE]
            secret = self.is_private(where)
            actual = self._side(difference.actual, secret=secret)
            expected = ""
            # Where a difference is not one to a value, such as an error, no value was expected.
            if difference.expected is not None:
                expected = f"expected {self._side(difference.expected, secret=secret)}, "
            yield f"{where} ({difference.rule[:_MAX_VALUE]}): {expected}got {actual}"
        if len(differences) > _MAX_DIFFERENCES:
            yield f"and {len(differences) - _MAX_DIFFERENCES} more"

    def _side(self, side: Side | None, *, secret: bool) -> str:
        if side is None:
            return "nothing"
        if secret:
            return MASKED
        return _cut(self._value(side.value, _MAX_DEPTH), _MAX_VALUE)

    def _value(self, value: Json, depth: int) -> str:
        match value:
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case int() | float():
                return _number(value)
            case str():
                return '"' + _cut(self.masked(value), _MAX_VALUE) + '"'
            case list():
                if depth == 0:
                    return "[...]"
                members = (self._value(member, depth - 1) for member in value[:_MAX_MEMBERS])
                return "[" + ", ".join(members) + (", ...]" if len(value) > _MAX_MEMBERS else "]")
            case dict():
                return self._object(value, depth)

    def _object(self, value: dict[str, Json], depth: int) -> str:
        if depth == 0:
            return "{...}"
        members: list[str] = []
        for key, member in value.items():
            if len(members) == _MAX_MEMBERS:
                members.append("...")
                break
            name = fit_text(key, _MAX_VALUE)
            members.append(f'"{name}": {MASKED if self.is_private(key) else self._value(member, depth - 1)}')
        return "{" + ", ".join(members) + "}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


def _number(value: float) -> str:
    # Python refuses to write an integer of more than 4300 digits.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large number"
    return repr(value)


def _built_in_masks() -> tuple[_Mask, ...]:
    return (
        (_compile(_TOKENS), _always("[key]")),
        (_compile(_SCHEME), lambda found: found.group(1) + " [token]"),
        (_compile(_USER_INFO), lambda found: found.group(1) + MASKED + "@"),
        (_compile(_ASSIGNED), lambda found: found.group(1) + MASKED),
        (_compile(_EMAIL), _always("[email]")),
        (_compile(_CARD), lambda found: "[card]" if _is_card(found.group(0)) else found.group(0)),
    )


def _always(word: str) -> Callable[[_Found], str]:
    return lambda _found: word


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
        yield compiled, _always(MASKED)


def _compile(pattern: str) -> _Pattern:
    """Compile; raises `ValueError` for what RE2 does not take."""
    options = re2.Options()
    # RE2 writes to stderr itself otherwise.
    options.log_errors = False
    try:
        return cast("_Pattern", re2.compile(pattern, options))  # the wrapper has no annotations
    except re2.error as error:
        raise ValueError(str(error)) from error
