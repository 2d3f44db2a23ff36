"""Failed runs in groups: those of one service that one criterion failed for one tool and one kind of reason."""

import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import Errored, Result
from toolgauge.model.records import VERSION
from toolgauge.report.explanations import deciding, worst_result
from toolgauge.report.kept import KeptTrajectory

_MAX_WHY, _MAX_VERSIONS = 300, 3
# What differs between two failures of one kind: numbers, ids, and what stands in quotation marks.
_VALUE = re.compile(r'"[^"\n]*"|[^\s`"(),;:]*\d[^\s`"(),;:]*')


class FailureGroup(Struct, kw_only=True):
    """Runs that failed alike, of `of` runs of their service; `example` is the id of the newest one. Times are since the epoch."""

    service: str
    criterion: str
    tool: str
    why: str
    runs: int
    of: int
    versions: list[str]
    first_ns: int
    last_ns: int
    example: str


def signature(result: Result, redactor: Redactor) -> tuple[str, str, str]:
    """Return criterion, tool and kind of reason of a result: the same for failures that differ in values and ids alone."""
    outcome = result.outcome
    text = outcome.message if isinstance(outcome, Errored) else outcome.explanation
    tool = "" if result.call is None else result.call.name
    return result.criterion, tool, _VALUE.sub("…", redactor.mask(text[:_MAX_WHY]))


def failure_groups(newest: Iterable[KeptTrajectory], redactor: Redactor) -> list[FailureGroup]:
    """Group the runs that failed by the result that explains most of each; the largest group first."""
    runs, groups = Counter[str](), dict[tuple[str, ...], FailureGroup]()
    for kept in newest:
        service = kept.trajectory.service or ""
        runs[service] += 1
        worst = worst_result(deciding(kept.results)) if kept.is_failed else None
        if worst is None:
            continue
        key = service, *signature(worst, redactor)
        group = groups.get(key)
        if group is None:
            _, criterion, tool, why = key
            group = groups[key] = FailureGroup(
                service=service, criterion=criterion, tool=tool, why=why, runs=0, of=0, versions=[],
                first_ns=kept.scored_at_ns, last_ns=kept.scored_at_ns, example=kept.id,
            )  # fmt: skip
        group.runs += 1
        group.first_ns = min(group.first_ns, kept.scored_at_ns)
        version = kept.trajectory.resource.get(VERSION, "")
        if version and version not in group.versions and len(group.versions) < _MAX_VERSIONS:
            group.versions.append(version)
    for group in groups.values():
        group.of = runs[group.service]
    return sorted(groups.values(), key=lambda group: (-group.runs, -group.last_ns))
