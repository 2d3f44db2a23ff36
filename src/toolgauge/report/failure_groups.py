"""Failed runs in groups: those of one service that one criterion failed for one tool, argument and kind of error.

The key comes from fields of the result. The words of its explanation count only where it has none.
"""

import re
from collections import Counter

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.export.regression_events import iso_time
from toolgauge.model.names import stable_name, stable_tool
from toolgauge.model.outcomes import ERROR_RULE, Errored, Outcome, Result, Scored
from toolgauge.model.records import VERSION
from toolgauge.report.explanations import deciding, worst_result
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.terminal import counted, percent

_MAX_READ, _MAX_WHY, _MAX_KEY, _MAX_VERSIONS = 2_000, 300, 120, 3
# What differs between two failures of one kind: numbers, ids, and what stands in quotation marks, which a cut may leave open.
_VALUE = re.compile(
    r'"[^"]*(?:"|$)|„[^“”]*(?:[“”]|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$)|「[^」]*(?:」|$)|(?<!\w)\'[^\'`]*\'(?!\w)'
    r'|(?<![^\s`"“«「(),;:])[^\s`"“«「(),;:\d]*\d[^\s`"“«「(),;:]*'
)
# A place in a list, or under a key that is no name.
_STEP = re.compile(r'\[(?:\d+|"(?:[^"\\]|\\.)*"?)\]?')


class FailureKind(Struct, frozen=True, order=True):
    """What failures of one kind share, over all values, ids and languages. `argument` is its path, "" without one."""

    criterion: str
    tool: str
    argument: str
    error: str


class FailureGroup(Struct, kw_only=True):
    """Runs that failed alike, of `of` runs of their service. `why` explains `example`, the id of the newest one. Times are since the epoch."""

    service: str
    kind: FailureKind
    why: str
    runs: int
    of: int
    versions: list[str]
    first_ns: int
    last_ns: int
    example: str

    @property
    def share(self) -> str:
        """How many of the runs of the service: `35 runs (58 %)`."""
        return f"{counted(self.runs, 'run')} ({percent(self.runs, self.of)})"


def failure_kind(result: Result, redactor: Redactor) -> FailureKind:
    """Return the kind of a failure."""
    call, outcome = result.call, result.outcome
    tool, argument, error = "" if call is None else call.name, "", ""
    first = next(iter(outcome.differences), None) if isinstance(outcome, Scored) else None
    if isinstance(outcome, Errored):
        error = outcome.error_type
    elif first is not None and first.rule != ERROR_RULE:
        argument, error = _path(first.where.removeprefix(tool).lstrip(" :.")), first.rule
    elif first is not None and call is not None and call.error is not None:
        error = stable_name(call.error.kind)
    elif isinstance(outcome, Scored) and outcome.parts:
        error = ", ".join(sorted(name for name, figure in outcome.parts.items() if figure))
    else:
        # Further clauses tell more of the single run.
        error, _, _ = _why(outcome, redactor).partition("; ")
    named = (redactor.mask(text)[:_MAX_KEY] for text in (argument, error))
    return FailureKind(result.criterion, tool and stable_tool(tool), *named)


def _path(where: str) -> str:
    """Return a path without numbers of items, keys that are no names, and ids."""
    first, *rest = _STEP.sub("[]", stable_name(where)).split(".")
    return ".".join((first, *("…" if any(letter.isdigit() for letter in each) else each for each in rest)))


def _why(outcome: Outcome, redactor: Redactor) -> str:
    text = outcome.message if isinstance(outcome, Errored) else outcome.explanation
    return _VALUE.sub("…", redactor.mask(text[:_MAX_READ]))[:_MAX_WHY]


class FailureGroups:
    """Groups runs that failed, each by the result that explains most of it; counts all."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._runs = Counter[str]()
        self._groups: dict[tuple[str, FailureKind], FailureGroup] = {}

    def add(self, kept: KeptTrajectory) -> None:
        """Count a run."""
        trajectory, at_ns = kept.trajectory, kept.scored_at_ns
        service, version = trajectory.service or "", trajectory.resource.get(VERSION, "")
        self._runs[service] += 1
        worst = worst_result(deciding(kept.results)) if kept.is_failed else None
        if worst is None:
            return
        key = service, failure_kind(worst, self._redactor)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = FailureGroup(
                service=service, kind=key[1], why="", runs=0, of=0, versions=[], first_ns=at_ns, last_ns=at_ns, example=""
            )  # fmt: skip
        group.runs += 1
        group.first_ns = min(group.first_ns, at_ns)
        if not group.example or (kept.id and (at_ns, kept.id) > (group.last_ns, group.example)):
            group.why, group.example = _why(worst.outcome, self._redactor), kept.id
        group.last_ns = max(group.last_ns, at_ns)
        if version and version not in group.versions and len(group.versions) < _MAX_VERSIONS:
            group.versions.append(version)

    def groups(self) -> list[FailureGroup]:
        """Return the groups, the largest first."""
        found = [replace(group, of=self._runs[group.service]) for group in self._groups.values()]
        return sorted(found, key=lambda group: (-group.runs, -group.last_ns, group.kind))

    def of_service(self, service: str | None) -> tuple[int, dict[FailureKind, FailureGroup]]:
        """Return the number of runs, and the groups by kind, of a service, or of all together."""
        kinds: dict[FailureKind, FailureGroup] = {}
        runs = sum(count for name, count in self._runs.items() if service in (None, name))
        for group in self.groups():
            if service in (None, group.service):
                known = kinds.get(group.kind)
                kinds[group.kind] = replace(known or group, runs=group.runs + (known.runs if known else 0), of=runs)
        return runs, kinds


def group_line(group: FailureGroup) -> str:
    """Describe a group on one line, without its criterion."""
    tool = f" of `{group.kind.tool}`" if group.kind.tool else ""
    versions = f", in {', '.join(group.versions)}" if group.versions else ""
    first, last = (minute(at_ns) for at_ns in (group.first_ns, group.last_ns))
    return f"{group.share}{tool}{versions}, first {first}, last {last}, as in {group.example}: {group.why}"


def minute(at_ns: int) -> str:
    """Write a time to the minute, in UTC."""
    return f"{iso_time(at_ns)[:16]}Z"
