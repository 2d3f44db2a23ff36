"""Failures that fail no run: known ones from a baseline file, and those that the record alone does not prove.

A known failure is a kind of failure with its service and its case. Ids of traces and values of arguments are no part of it,
so that the next recording has the same.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.model.names import stable_tool
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scorecard, Scored, outcome_word
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.failure_groups import failure_kind
from toolgauge.report.terminal import counted

_SHADOW = "shadow"

# What the spans themselves show: a broken schema, a tool that was not on offer, an error that was told, an act done twice,
# an id that nobody gave.
PROVED = frozenset(
    {"arguments_schema", "known_tool", "tool_success", "run_completed", "one_effect"}
    | {"grounded_arguments", "grounded_answer"}
)


class KnownFailure(msgspec.Struct, frozen=True, order=True, kw_only=True, omit_defaults=True):
    """One line of a baseline. What a failure does not have is empty."""

    criterion: str
    service: str = ""
    case: str = ""
    tool: str = ""
    argument: str = ""
    error: str = ""

    @property
    def place(self) -> "KnownFailure":
        """The same without its reason: what a criterion judges again when the failure is mended."""
        return msgspec.structs.replace(self, argument="", error="")


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
        if not _is_failure(outcome):
            return False
        self._seen.add(failure)
        return self._known is None or failure in self._known

    def write(self) -> str:
        """Forget failures that are mended, write the file where it changes, and describe it."""
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


class Exemptions:
    """Decides which failures fail a run. Counts runs, those that failed, and those whose failures are all exempt, by the reason."""

    def __init__(
        self,
        redactor: Redactor,
        baseline: Baseline | None = None,
        *,
        only_proved: bool = False,
        case_keys: Sequence[str] = (),
    ) -> None:
        self._redactor = redactor
        self._baseline = baseline
        self._only_proved = only_proved
        self._case_keys = case_keys
        self.runs = self.failed = 0
        self.exempt = Counter[str]()

    def case_of(self, trajectory: Trajectory) -> str | None:
        """Return the case that criteria look up for a trajectory."""
        found = (trajectory.attributes[key] for key in self._case_keys if key in trajectory.attributes)
        return next(map(str, found), None)

    def of_run(self, scorecard: Scorecard) -> dict[str, str]:
        """Judge a run: by the criteria that failed, why that fails no run, or "" where it does."""
        found: dict[str, str] = {}
        service, case = scorecard.trajectory.service or "", self.case_of(scorecard.trajectory) or ""
        for result in scorecard.results:
            failed = _is_failure(result.outcome)
            failure = KnownFailure(criterion=result.criterion, service=service, case=case)
            if self._baseline is not None and not isinstance(result.outcome, NotEvaluated):
                tool = "" if result.call is None else stable_tool(result.call.name)
                kind = failure_kind(result, self._redactor) if failed else None
                argument, error = ("", "") if kind is None else (kind.argument, kind.error)
                failure = msgspec.structs.replace(failure, tool=tool, argument=argument, error=error)
            is_shadow = result.enforce == "shadow"
            reason = _SHADOW if failed and is_shadow else self._reason(result.evaluator, result.outcome, failure)
            if failed and found.get(result.criterion) != "":
                found[result.criterion] = reason
        self._count(found.values(), is_run=not scorecard.by_judges)
        return found

    def of_case(self, name: str, evaluator: str, outcome: Outcome) -> str:
        """Judge a case: return why its failure does not count, else ""."""
        failed = _is_failure(outcome)
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
        is_known = self._baseline is not None and self._baseline.knows(failure, outcome)
        if self._only_proved and not (evaluator in PROVED and isinstance(outcome, Scored)):
            return "not proved"
        return "known" if is_known else ""

    def lines(self, noun: str = "run") -> Iterator[str]:
        """Count the runs or cases that failed, and write the baseline."""
        if self._baseline is not None:
            yield self._baseline.write()
        rest = "".join(f"; {count} with failures that are {reason}" for reason, count in self.exempt.items())
        hint = ", `--failed` explains them" if self.failed and noun == "run" else ""
        yield f"{self.failed} of {counted(self.runs, noun)} failed{rest}{hint}"


def _is_failure(outcome: Outcome) -> bool:
    return outcome_word(outcome) in ("fail", "error")
