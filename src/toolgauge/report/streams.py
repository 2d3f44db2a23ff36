"""Standard output and standard error: nothing else in this package writes to them.

Plug-ins find standard error in the place of standard output, which is kept for the report of a command.

Names in spans are hostile. Commands to a CI system are broken, and control characters are shown: a terminal obeys them,
and a CI system reads some as the begin of a line.
"""

import contextlib
import os
import re
import sys
from collections.abc import Generator
from io import TextIOWrapper
from typing import TextIO

from toolgauge.report.terminal import fitted

# What each of them sets for its jobs: GitHub Actions, Azure Pipelines, TeamCity, Buildkite and all others.
_SYSTEMS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION", "BUILDKITE", "CI")
_COLOUR = r"\x1b\[[\d;]*m"
# `::set-env name=A::b` or the group `--- a` where a line begins; `##[add-path]a`, `##vso[task.setvariable]a`,
# `##teamcity[...]` and `section_start:1:a` anywhere.
_COMMAND = re.compile(
    rf"^((?:[^\S\n]|{_COLOUR})*)(?::(?=:)|-(?=-- )|\+(?=\+\+ )|~(?=~~ )|\^(?=\^\^ ))|#(?=#\w*\[)|s(?=ection_(?:start|end):)",
    re.MULTILINE,
)
# All control characters but the end of a line, the tab, our own colours and links, and characters that reorder text.
_CONTROL = re.compile(
    rf"{_COLOUR}|\x1b\]8;;[^\x00-\x1f\x7f-\x9f]*\x1b\\|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"
)


def without_commands(text: str) -> str:
    """Break commands in the text, where a CI system reads it; the escapes leave the values of JSON as they are."""
    if all(os.environ.get(name) in (None, "", "false") for name in _SYSTEMS):
        return text
    return _COMMAND.sub(lambda found: f"{found[1] or ''}{_escaped(found[0][-1])}", text)


def _escaped(letter: str) -> str:
    return f"\\u{ord(letter):04x}"


def _safe(text: str) -> str:
    return without_commands(_CONTROL.sub(lambda found: found[0] if len(found[0]) > 1 else _escaped(found[0]), text))


# Not the number of the error: click would end the process for it, with 1.
_READER_LEFT = "the reader of the output has closed it"


class Output(TextIOWrapper):
    """A stream that lets neither commands nor control characters of others through."""

    _drawn = 0
    # Whether the rest is dropped once its reader has gone.
    outlasts_reader = False

    def write(self, text: str, /) -> int:
        """Write text."""
        return self._put(_safe(text))

    def _put(self, text: str) -> int:
        try:
            return super().write(text)
        except BrokenPipeError as error:
            if not self.outlasts_reader:
                raise BrokenPipeError(_READER_LEFT) from error
            drop_output()
            return len(text)

    def flush(self) -> None:
        """Write what waits."""
        try:
            super().flush()
        except BrokenPipeError as error:
            if not self.outlasts_reader:
                raise BrokenPipeError(_READER_LEFT) from error
            drop_output()
            super().flush()

    def annotate(self, command: str) -> None:
        """Write a command to GitHub of our own: only its first two characters begin one."""
        self._put(f"{command[:2]}{_safe(command[2:])}\n")
        self.flush()

    def redraw(self, text: str) -> None:
        """Put the text in the place of the last one."""
        shown, before = _safe(text), self._drawn
        self._drawn = len(shown)
        if shown or before:
            self._put(f"\r{' ' * before}\r{shown}")
            self.flush()


# Standard output while a command runs: the streams of a process are its state.
_kept: list[TextIO] = []


@contextlib.contextmanager
def kept_output() -> Generator[None]:
    """Keep standard output for us: everybody else finds standard error in its place."""
    _kept.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _kept.pop()


def output() -> TextIO:
    """Return standard output."""
    return _kept[-1] if _kept else sys.stdout


def echo(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print to standard output, or to standard error; colours and links only where `has_colour`."""
    stream = sys.stderr if err else output()
    stream.write(f"{text}{end}")
    stream.flush()


def echo_fitted(text: str, *, err: bool = False) -> None:
    """Print a line for people, broken to fit a screen."""
    echo(fitted(text), err=err)


def annotate(command: str) -> None:
    """Print a command to GitHub on standard error: it reads both streams, and the other one may go to a program."""
    if isinstance(sys.stderr, Output):
        sys.stderr.annotate(command)


def redraw(text: str) -> None:
    """Put the text, where `has_bar`, in the place of the one before it on standard error; an empty one takes it away."""
    if isinstance(sys.stderr, Output):
        sys.stderr.redraw(text)


def is_terminal(*, err: bool = False) -> bool:
    """Return whether the stream is a terminal."""
    return (sys.stderr if err else output()).isatty()


def has_bar() -> bool:
    """Return whether standard error is a terminal on which a line can be drawn again."""
    return is_terminal(err=True) and os.environ.get("TERM") != "dumb"


def has_colour(*, err: bool = False) -> bool:
    """Return whether the stream is a terminal that has colours, and `NO_COLOR` is not set."""
    return is_terminal(err=err) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def open_streams() -> None:
    """Take over the streams of this process."""
    streams: tuple[object, ...] = (sys.stdin, sys.stdout, sys.stderr)
    # Replace streams that were closed when we were started: Python leaves `None` in their place.
    for number, mode in enumerate(("r", "w", "w")) if None in streams else ():
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, so that no socket or file of ours gets one of these three.
            os.open(os.devnull, os.O_RDWR)
        if streams[number] is None:
            setattr(sys, ("stdin", "stdout", "stderr")[number], os.fdopen(number, mode, closefd=False))
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        if type(stream) is TextIOWrapper:  # not where somebody put another stream in its place
            # Let a terminal that lacks a letter show its number: recordings hold all there are.
            encoding, is_by_line, binary = stream.encoding, stream.line_buffering, stream.detach()
            if name == "stdout" and binary.fileno() == 1:
                # Descriptor 1 is for plug-ins, and for the processes that they start.
                binary = os.fdopen(os.dup(1), "wb")
                os.dup2(2, 1)
            setattr(sys, name, Output(binary, encoding, "backslashreplace", line_buffering=is_by_line))


def close_log() -> None:
    """Flush standard error. A log on a full disk must not become the exit code: Python flushes once more at the end."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def outlast_reader(*, outlasts: bool) -> None:
    """Let a command run to its end without a reader, so that its exit code and its files are as they would be alone, or not."""
    if isinstance(sys.stdout, Output):
        sys.stdout.outlasts_reader = outlasts


def drop_output() -> None:
    """Keep Python from complaining once more when it closes standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), output().fileno())
