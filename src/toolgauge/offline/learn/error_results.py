"""How the results begin that precede repeats of tools that never worked: which texts are failures, to be named by a person.

Only beginnings that hold no value are kept: words for errors, classes of exceptions, members of objects.
"""

import json
import re
from collections.abc import Iterator

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.offline.learn.names import as_glob
from toolgauge.offline.learn.yaml_text import Commented, Written
from toolgauge.report.terminal import counted
from toolgauge.score.error_texts import ERROR_TEXT, with_error_texts

_MAX_BEGINNINGS = 50
_BEGINNING = re.compile(
    r"\[?(?:tool |http |internal |server |unexpected )?(?:error|exception|failure|fatal)\]?(?: ?[:\u2013\u2014]| -)"
    r"|(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?-i:Error|Exception):"
    r"|error (?:executing|calling|running|invoking) |an error occurred|traceback \(most recent call last\)"
    r"|failed to |unable to |cannot |could not |invalid |permission denied|access denied|unauthorized|forbidden",
    re.IGNORECASE,
)
_CLASS = re.compile(r"[\w.]+(?:Error|Exception):")
_MEMBERS = ("error", "errors", "error_message", "errorMessage")


class _Counts:
    """The results with one beginning: all, and those before a repeat of a tool that never worked in the run."""

    def __init__(self) -> None:
        self.results = 0
        self.runs = 0
        self.before_repeats = 0
        self.repeating_runs = 0
        self.tools: set[str] = set()


class ErrorResults:
    """Counts results that read like errors, by how they begin."""

    def __init__(self) -> None:
        self._counts: dict[str, _Counts] = {}

    def add(self, trajectory: Trajectory) -> None:
        """Add the results of one run."""
        begun = [(call, beginning) for call in trajectory.calls if (beginning := _beginning(call.result))]
        if not begun:
            return
        repeated = set(_before_repeats(trajectory))
        seen: set[str] = set()
        repeating: set[str] = set()
        for call, beginning in begun:
            if beginning not in self._counts and len(self._counts) == _MAX_BEGINNINGS:
                continue
            counts = self._counts.setdefault(beginning, _Counts())
            counts.results += 1
            seen.add(beginning)
            if call.order in repeated:
                counts.before_repeats += 1
                counts.tools.add(call.name)
                repeating.add(beginning)
        for beginning in seen:
            self._counts[beginning].runs += 1
            self._counts[beginning].repeating_runs += beginning in repeating

    def globs(self) -> list[Written]:
        """Write a glob for each beginning of a result before a repeat, with its counts."""
        return [
            Commented(
                f"{as_glob(beginning)}*",
                f"{counted(counts.before_repeats, 'result')} of {counted(len(counts.tools), 'tool')} in "
                f"{counted(counts.repeating_runs, 'run')}, before repeats of a tool that never worked; "
                f"{counted(counts.results, 'result')} in {counted(counts.runs, 'run')} begin so",
            )
            for beginning, counts in sorted(self._counts.items())
            # A name that a single run made up may hold anything.
            if counts.before_repeats and (counts.runs > 1 or _CLASS.fullmatch(beginning) is None)
        ]


def _before_repeats(trajectory: Trajectory) -> Iterator[int]:
    """Yield the orders of the calls that failed by their results alone and whose tool was called again."""
    last: dict[str, ToolCall] = {}
    for call in with_error_texts(trajectory).trajectory.calls:
        before = last.get(call.name)
        if before is not None and before.error is not None and before.error.kind == ERROR_TEXT:
            yield before.order
        last[call.name] = call


def _beginning(result: Content) -> str | None:
    match result:
        case Recorded(value=str() as text) | Unparsed(text=text):
            found = _BEGINNING.match(text)
            return found[0] if found is not None else None
        case Recorded(value=dict() as answer):
            first = next(iter(answer), None)
            return f"{{{json.dumps(first)}:" if first in _MEMBERS and answer[first] else None
        case _:
            return None
