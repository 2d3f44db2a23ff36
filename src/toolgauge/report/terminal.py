"""Colours on a terminal, and hostile text made safe for one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolgauge.model.outcomes import OutcomeWord
from toolgauge.model.plain_words import with_cause

_RESET = "\x1b[0m"
WIDTH = 100
# So much of a trace id names the trace to people; `check --trace` takes it.
TRACE_DIGITS = 8
_UNSEEN = re.compile(r"\x1b\[\d*m|\x1b\]8;;[^\x1b]*\x1b\\")
# A command or a name between backticks is one word, to be pasted.
_WORD = re.compile(r" *(?:`(?:[^`]*`)?|\x1b\]8;;[^\x1b]*\x1b\\|[^ `])+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Style:
    """How parts of a line are set off. Without `colour` there are neither colours nor hyperlinks (OSC 8)."""

    colour: bool = False

    def head(self, text: str) -> str:
        """Set off the head of a block."""
        return self._set("1", text)

    def good(self, text: str) -> str:
        """Set off a good state."""
        return self._set("32", text)

    def bad(self, text: str) -> str:
        """Set off a failure or a missing fact."""
        return self._set("31", text)

    def doubtful(self, text: str) -> str:
        """Set off a fact that is not known."""
        return self._set("33", text)

    def aside(self, text: str) -> str:
        """Set back details."""
        return self._set("2", text)

    def link(self, text: str, url: str) -> str:
        """Link a text on a terminal; elsewhere write the address, if any, in its place."""
        if not url:
            return text
        return f"\x1b]8;;{printable(url)}\x1b\\{text}\x1b]8;;\x1b\\" if self.colour else printable(url)

    def _set(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}{_RESET}" if self.colour and text else text


PLAIN = Style()


def outcome_styled(style: Style, word: OutcomeWord, text: str) -> str:
    """Set off a text by the outcome that it is about."""
    return {"pass": style.good, "not_evaluated": style.doubtful}.get(word, style.bad)(text)


def printable(text: str) -> str:
    """Make hostile text safe for a terminal: control characters and lone surrogates are shown, not sent."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def indented(text: str, indent: str) -> str:
    """Make hostile text safe for a terminal; lines after the first one are indented, to look unlike rows of ours."""
    return f"\n{indent}".join(map(printable, text.replace("\r\n", "\n").strip("\n").split("\n")))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows]


def fitted(line: str) -> str:
    """Break a line at spaces to fit `WIDTH` columns, indented below its beginning; links, commands and rows of tables stay whole."""
    if len(line) <= WIDTH or line.startswith("|"):
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    lines = [""]
    for word in _WORD.findall(line.rstrip()):
        is_full = lines[-1].strip() and len(_UNSEEN.sub("", lines[-1] + word)) > WIDTH
        if is_full:
            lines.append(indent)
        lines[-1] += word.lstrip() if is_full else word
    return "\n".join(lines)


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Write how many there are, `1 call`, `2,000 calls`; `nouns` where an `s` does not make many of one."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def percent(part: int, whole: int) -> str:
    """Write a share, `58 %`, which is rounded neither to nothing nor to all."""
    share = round(100 * part / whole) if whole else 0
    return "<1 %" if part and not share else ">99 %" if share == 100 and part < whole else f"{share} %"


def shortened(text: str, length: int) -> str:
    """Make text safe for a terminal and no longer than `length`."""
    if len(text) > length:
        # What becomes of one letter may be ten long; a prefix is enough to fill the line.
        return f"{printable(text[:length])[: length - 1]}…"
    text = printable(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def shortened_error(text: str, length: int) -> str:
    """Make the text of an error safe for a terminal and no longer than `length`; its cause stays."""
    shown = printable(with_cause(text, length))
    excess = len(shown) - length
    # What becomes of one letter may be ten long.
    return shown if excess <= 0 else shortened(with_cause(text, max(0, length - excess)), length)
