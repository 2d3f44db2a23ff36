"""Trajectories as rows of a table: who, when, how many calls, and the worst of what criteria found."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from toolgauge.export.redact import Redactor
from toolgauge.model.error_causes import with_cause
from toolgauge.model.outcomes import NotEvaluated, OutcomeWord, outcome_word
from toolgauge.model.plain_words import reason_words
from toolgauge.model.records import VERSION
from toolgauge.report.explanations import brief_reason, deciding, figure, worst_result
from toolgauge.report.filters import MAX_TEXT, Filters
from toolgauge.report.kept import KeptTrajectory
from toolgauge.score.selection import was_stopped

_MAX_WHY = 160
_UNKNOWN = "unknown service"


class TrajectoryRow(Struct, frozen=True, kw_only=True):
    """One trajectory. `criterion` is that of the worst result, empty without any; `others` counts further failures."""

    id: str
    time_ns: int
    word: OutcomeWord
    service: str
    version: str
    agent: str
    more_agents: int
    calls: int
    criterion: str
    score: float | None
    tool: str
    why: str
    others: int
    is_shadow: bool


class Gap(Struct, frozen=True, kw_only=True):
    """How often a criterion could not be evaluated for one reason."""

    criterion: str
    reason: str
    results: int
    of: int

    @property
    def query(self) -> str:
        """The query that finds such trajectories."""
        return Filters(criterion=self.criterion, outcome="not_evaluated").query()


class SeenService(Struct, frozen=True, kw_only=True):
    """A service among the trajectories that are kept, with its newest version. `query` finds them; empty where none can.

    `stopped` counts the calls that wait for a person or were refused by one.
    """

    name: str
    version: str
    trajectories: int
    failed: int
    calls: int
    stopped: int
    newest_ns: int
    query: str


def row(kept: KeptTrajectory, redactor: Redactor) -> TrajectoryRow:
    """Make the row of one trajectory."""
    trajectory = kept.trajectory
    results = deciding(kept.results)
    worst = worst_result(results)
    words = Counter(outcome_word(result.outcome) for result in results)
    failures = words["fail"] + words["error"]
    score, why, word = None, "no criterion applies", kept.outcome
    if worst is not None:
        score, reason = figure(worst.outcome)
        word = outcome_word(worst.outcome)
        why = brief_reason(worst.outcome, redactor) or reason_words(reason or "")
        if word == "pass":
            unseen = f", {words['not_evaluated']} not evaluated" if words["not_evaluated"] else ""
            score, why = None, f"{words['pass']} passed{unseen}"
        elif word == "not_evaluated":
            why = f"{reason_words(reason or '')}: {why}"
    return TrajectoryRow(
        id=kept.id,
        time_ns=kept.scored_at_ns,
        word=word,
        service=trajectory.service or _UNKNOWN,
        version=trajectory.resource.get(VERSION, ""),
        agent=trajectory.agents[0] if trajectory.agents else "",
        more_agents=max(0, len(trajectory.agents) - 1),
        calls=len(trajectory.calls),
        criterion="" if worst is None or word == "pass" else worst.criterion,
        score=score,
        tool="" if worst is None or worst.call is None or word == "pass" else worst.call.name,
        why=with_cause(why, _MAX_WHY),
        others=failures - 1 if word in ("fail", "error") else 0,
        is_shadow=worst is not None and worst.enforce == "shadow",
    )


def gaps(kept: Iterable[KeptTrajectory]) -> Iterator[Gap]:
    """Yield what was not evaluated and why, the most frequent first; that there was nothing to judge is no gap."""
    totals: Counter[str] = Counter()
    unseen: Counter[tuple[str, str]] = Counter()
    for one in kept:
        for result in one.results:
            totals[result.criterion] += 1
            if isinstance(result.outcome, NotEvaluated) and result.outcome.reason not in _NOTHING_TO_JUDGE:
                unseen[result.criterion, result.outcome.reason] += 1
    for (criterion, reason), count in unseen.most_common():
        yield Gap(criterion=criterion, reason=reason, results=count, of=totals[criterion])


_NOTHING_TO_JUDGE = ("no_calls", "nothing_expected", "not_executed", "sampled_out")


def services(newest: Iterable[KeptTrajectory]) -> list[SeenService]:
    """Collect the services, those with the newest trajectory first."""
    seen: dict[str, SeenService] = {}
    for kept in newest:
        name = kept.trajectory.service or _UNKNOWN
        before = seen.get(name)
        seen[name] = SeenService(
            name=name,
            version=kept.trajectory.resource.get(VERSION, "") if before is None else before.version,
            trajectories=1 + (0 if before is None else before.trajectories),
            failed=kept.is_failed + (0 if before is None else before.failed),
            calls=len(kept.trajectory.calls) + (0 if before is None else before.calls),
            stopped=sum(map(was_stopped, kept.trajectory.calls)) + (0 if before is None else before.stopped),
            newest_ns=kept.scored_at_ns if before is None else before.newest_ns,
            query=Filters(service=name).query() if kept.trajectory.service and len(name) <= MAX_TEXT else "",
        )
    return list(seen.values())
