"""Failed runs by kind of failure (criterion, tool, argument and kind of error), and the failures that fail no run.

The kind comes from fields of the result. The words of its explanation count only where these fields are empty. A known
failure is a kind of failure with its service and its case: ids of traces and values of arguments would differ in the next
recording.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.export.regression_events import iso_time
from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.model.names import stable_name, stable_tool
from toolgauge.model.outcomes import (
    ERROR_RULE,
    Errored,
    NotEvaluated,
    Outcome,
    Result,
    Scorecard,
    Scored,
    outcome_word,
)
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.explanations import FAILED, deciding, live_outcome, worst_result
from toolgauge.report.terminal import counted, percent
from toolgauge.report.trajectory_rows import trajectory_id

_MAX_READ, _MAX_WHY, _MAX_KEY, _MAX_VERSIONS = 2_000, 300, 120, 3
# Numbers, ids and quoted texts differ between two failures of one kind. A cut may leave a quotation open.
_VALUE = re.compile(
    r'"[^"]*(?:"|$)|„[^“”]*(?:[“”]|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$)|「[^」]*(?:」|$)|(?<!\w)\'[^\'`]*\'(?!\w)'
    r'|(?<![^\s`"“«「(),;:])[^\s`"“«「(),;:\d]*\d[^\s`"“«「(),;:]*'
)
# A place in a list, or under a key other than a name.
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
    tool, argument = "" if call is None else call.name, ""
    first = next(iter(outcome.differences), None) if isinstance(outcome, Scored) else None
    if isinstance(outcome, Errored):
        error = outcome.error_type
    elif first is not None and first.rule != ERROR_RULE:
        error = first.rule
        # A path without numbers of items, keys other than names, and ids.
        name, *rest = _STEP.sub("[]", stable_name(first.where.removeprefix(tool).lstrip(" :."))).split(".")
        argument = ".".join((name, *("…" if any(letter.isdigit() for letter in each) else each for each in rest)))
    elif first is not None and call is not None and call.error is not None:
        error = stable_name(call.error.kind)
    elif isinstance(outcome, Scored) and outcome.parts:
        error = ", ".join(sorted(name for name, figure in outcome.parts.items() if figure))
    else:
        # Further clauses tell more of the single run.
        error, _, _ = _why(outcome, redactor).partition("; ")
    named = (redactor.mask(text)[:_MAX_KEY] for text in (argument, error))
    return FailureKind(result.criterion, tool and stable_tool(tool), *named)


def _why(outcome: Outcome, redactor: Redactor) -> str:
    return _VALUE.sub("…", redactor.mask(outcome.explanation[:_MAX_READ]))[:_MAX_WHY]


class FailureGroups:
    """Groups failed runs, each by the result that explains most; counts all runs."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._runs = Counter[str]()
        self._groups: dict[tuple[str, FailureKind], FailureGroup] = {}

    def add(self, scorecard: Scorecard, example: str | None = None) -> None:
        """Count a run; `example` is an id other than `trajectory_id`, empty where no page shows the run."""
        trajectory, at_ns = scorecard.trajectory, scorecard.scored_at_ns
        example = trajectory_id(trajectory) if example is None else example
        service, version = trajectory.service or "", trajectory.resource.get(VERSION, "")
        self._runs[service] += 1
        worst = worst_result(deciding(scorecard.results))
        if worst is None or live_outcome(scorecard.results) not in FAILED:
            return
        key = service, failure_kind(worst, self._redactor)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = FailureGroup(
                service=service, kind=key[1], why="", runs=0, of=0, versions=[], first_ns=at_ns, last_ns=at_ns, example=""
            )  # fmt: skip
        group.runs += 1
        group.first_ns = min(group.first_ns, at_ns)
        if not group.example or (example and (at_ns, example) > (group.last_ns, group.example)):
            group.why, group.example = _why(worst.outcome, self._redactor), example
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


_SHADOW = "shadow"

# Evaluators whose failures the spans themselves prove: a broken schema, an unknown tool, a reported error, an act done
# twice, an invented id.
PROVED = frozenset(
    {"arguments_schema", "known_tool", "tool_success", "run_completed", "one_effect"}
    | {"grounded_arguments", "grounded_answer"}
)


class KnownFailure(Struct, frozen=True, order=True, kw_only=True, omit_defaults=True):
    """One line of a baseline. What a failure does not have is empty."""

    criterion: str
    service: str = ""
    case: str = ""
    tool: str = ""
    argument: str = ""
    error: str = ""

    @property
    def place(self) -> "KnownFailure":
        """The same without its reason: the criterion judges it again once the failure is fixed."""
        return replace(self, argument="", error="")


class Baseline:
    """A file of known failures. One that does not exist is written with all failures of this check."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._judged: set[KnownFailure] = set()
        self._seen: set[KnownFailure] = set()
        self._known: set[KnownFailure] | None = None
        if path.exists():
            self._known = set()
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                try:
                    self._known.add(msgspec.json.decode(line, type=KnownFailure))
                except msgspec.MsgspecError as error:
                    raise ConfigError(f"`{path}`, line {number}: not a known failure ({error})") from error

    def knows(self, failure: KnownFailure, outcome: Outcome) -> bool:
        """Take note of a judgement; return whether it is a known failure."""
        if not isinstance(outcome, NotEvaluated):
            self._judged.add(failure.place)
        if outcome_word(outcome) not in FAILED:
            return False
        self._seen.add(failure)
        return self._known is None or failure in self._known

    def write(self) -> str:
        """Forget fixed failures, write the file where it changes, and describe it."""
        before = self._seen if self._known is None else self._known
        kept = {one for one in before if one in self._seen or one.place not in self._judged}
        if kept != self._known:
            text = "".join(f"{json.dumps(msgspec.to_builtins(one), ensure_ascii=False)}\n" for one in sorted(kept))
            try:
                self._path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise ToolgaugeError(f"cannot write `{self._path}`: {error.strerror or error}") from error
        begun = " (written: delete it to begin again)" if self._known is None else ""
        new, mended = len(self._seen - before), len(before - kept)
        return f"baseline `{self._path}`: {len(kept)} known, {new} new, {mended} mended{begun}"


@dataclass(slots=True)
class Exemptions:
    """Decides which failures fail a run. Counts runs, failed runs, and by the reason runs whose failures are all exempt."""

    redactor: Redactor
    baseline: Baseline | None = None
    _: KW_ONLY
    only_proved: bool = False
    case_keys: Sequence[str] = ()
    runs: int = 0
    failed: int = 0
    exempt: Counter[str] = field(default_factory=Counter[str])

    def case_of(self, trajectory: Trajectory) -> str | None:
        """Return the case that criteria look up for a trajectory."""
        found = (trajectory.attributes[key] for key in self.case_keys if key in trajectory.attributes)
        return next(map(str, found), None)

    def of_run(self, scorecard: Scorecard) -> dict[str, str]:
        """Judge a run: by the criteria that failed, why that fails no run, or "" where it does."""
        found: dict[str, str] = {}
        service, case = scorecard.trajectory.service or "", self.case_of(scorecard.trajectory) or ""
        for result in scorecard.results:
            failed = outcome_word(result.outcome) in FAILED
            failure = KnownFailure(criterion=result.criterion, service=service, case=case)
            if self.baseline is not None and not isinstance(result.outcome, NotEvaluated):
                tool = "" if result.call is None else stable_tool(result.call.name)
                kind = failure_kind(result, self.redactor) if failed else None
                argument, error = ("", "") if kind is None else (kind.argument, kind.error)
                failure = replace(failure, tool=tool, argument=argument, error=error)
            is_shadow = result.enforce == "shadow"
            reason = _SHADOW if failed and is_shadow else self._reason(result.evaluator, result.outcome, failure)
            if failed and found.get(result.criterion) != "":
                found[result.criterion] = reason
        self._count(found.values(), is_run=not scorecard.by_judges)
        return found

    def of_case(self, name: str, evaluator: str, outcome: Outcome) -> str:
        """Judge a case: return why its failure does not count, else ""."""
        failed = outcome_word(outcome) in FAILED
        failure = KnownFailure(criterion=evaluator, case=name, error=outcome_word(outcome) if failed else "")
        reason = self._reason(evaluator, outcome, failure)
        self._count((reason,) if failed else (), is_run=True)
        return reason

    def _count(self, reasons: Collection[str], *, is_run: bool) -> None:
        self.runs += is_run
        self.failed += "" in reasons
        if "" not in reasons:
            self.exempt.update({*reasons} - {_SHADOW})

    def _reason(self, evaluator: str, outcome: Outcome, failure: KnownFailure) -> str:
        is_known = self.baseline is not None and self.baseline.knows(failure, outcome)
        if self.only_proved and not (evaluator in PROVED and isinstance(outcome, Scored)):
            return "not proved"
        return "known" if is_known else ""

    def lines(self, noun: str = "run") -> Iterator[str]:
        """Count the runs or cases that failed, and write the baseline."""
        if self.baseline is not None:
            yield self.baseline.write()
        rest = "".join(f"; {count} with failures that are {reason}" for reason, count in self.exempt.items())
        hint = ", `--failed` explains them" if self.failed and noun == "run" else ""
        yield f"{self.failed} of {counted(self.runs, noun)} failed{rest}{hint}"
