"""The command lines of README and pages, in the order in which a reader meets them.

A command line is a command in a fence of shell (`sh`, `bash`), a line after `$` in a fence `console`, or code in a text that
begins with a program and has arguments (`toolgauge inspect FILE`); `toolgauge inspect` and `kill -9` are names of commands.
A comment directly above a fence, paragraph, list or table says what a test has to know of it:

<!-- not run: needs a cluster -->      these commands are not run, and why
<!-- exit code 1: a run fails -->      these commands end with this exit code, and why
<!-- file: toolgauge.yaml -->          the reader writes this fence to a file
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = {str(page.relative_to(ROOT)): page.read_text() for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]}  # fmt: skip
PROGRAMS = (
    r"(?:\S*\btoolgauge|\S*\bpython3?|\.venv\S*|\S+\.sh|for \w+ in|amtool|cd|claude|cp|curl|docker|export|git|helm|kill"
    r"|kubectl|npm|npx|percli|pip|pipx|promtool|pytest|sed|ssh|systemctl|uv|uvx)"
)
_MARK = re.compile(r" *<!-- (not run|file|exit code [123]): (.+) -->")
_FENCE = re.compile(r"( *)(`{3,})(.*)")
_CODE = re.compile(r"(`+)(.+?)\1")
_INLINE = re.compile(rf"{PROGRAMS} .+")
# Without a file, a value or an address it is the name of a command, as `promtool check rules` and `kill -9` are.
_NAME_OF_A_COMMAND = re.compile(r"\S*toolgauge \S+( --[\w-]+)?|(?!\S*toolgauge )\S+( [a-z][a-z-]*| --?\w[\w-]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command line. `reason` says why it is not run or why it ends with `exit_code`."""

    line: int
    text: str
    not_run: str | None = None
    exit_code: int = 0
    # What a fence `console` shows below the command.
    screen: str | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader writes."""

    name: str
    text: str


def steps(page: str) -> Iterator[Command | File]:
    """Yield the commands and files of a page (its text) from top to bottom."""
    lines = iter(enumerate(page.splitlines(), 1))
    mark = ("", "")
    block: list[str] = []
    for number, line in lines:
        fence, marked = _FENCE.fullmatch(line), _MARK.fullmatch(line)
        if fence or marked or not line.strip():
            yield from _inline(number - len(block), " ".join(block), mark)
            block = []
        if fence:
            indent, ticks, language = fence.groups()
            held: list[str] = []
            for _, inner in lines:
                if inner.strip() == ticks:
                    break
                held.append(inner.removeprefix(indent))
            yield from _of_fence(number, language, held, mark)
        elif not marked and line.strip():
            block.append(line.strip())
            continue
        mark = (marked[1], marked[2]) if marked else ("", "")
    yield from _inline(len(page.splitlines()) + 1 - len(block), " ".join(block), mark)


def _of_fence(number: int, language: str, held: list[str], mark: tuple[str, str]) -> Iterator[Command | File]:
    if mark[0] == "file":
        yield File(mark[1], "\n".join(held) + "\n")
    elif language == "console" or (held and held[0].startswith("$ ")):
        for shown in re.split(r"^\$ ", "\n".join(held), flags=re.MULTILINE)[1:]:
            text, _, screen = shown.partition("\n")
            yield _command(number, text, mark, screen)
    elif language in ("sh", "bash", "shell") or (language in ("", "text") and _INLINE.match(" ".join(held))):
        for text in _commands("\n".join(held)):
            yield _command(number, text, mark)


def _inline(number: int, text: str, mark: tuple[str, str]) -> Iterator[Command]:
    for _, found in _CODE.findall(text):
        if _INLINE.fullmatch(found) and not _NAME_OF_A_COMMAND.fullmatch(found):
            yield _command(number, found, mark)


def _command(line: int, text: str, mark: tuple[str, str], screen: str | None = None) -> Command:
    kind, reason = mark
    code = int(kind[-1]) if kind.startswith("exit code") else 0
    return Command(line=line, text=text, not_run=reason if kind == "not run" else None, exit_code=code, screen=screen)


def _commands(script: str) -> Iterator[str]:
    """Split a script into its commands: a command ends with the first line after which the shell expects nothing more."""
    begun = ""
    for line in script.splitlines():
        begun += line + "\n"
        checked = subprocess.run(["bash", "-n"], input=begun, capture_output=True, text=True, check=False)
        if not checked.stderr and not line.endswith("\\"):
            if begun.strip():
                yield begun.strip()
            begun = ""
    assert not begun, f"the shell expects more after {begun}"
