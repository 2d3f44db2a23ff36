"""Tokens, time and cost of runs, and the section `costs`: whether a run passed, and the cost of a passed run.

Work of failed runs counts: the sum over all runs is divided by the number of passed runs. Values that were not recorded are not 0.
Criteria that need no reference only see faults: a run succeeded where `costs.success` names other criteria, else it had no visible
fault.
"""

from collections import Counter
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Struct
from pydantic import Field

from toolgauge.model.outcomes import Scorecard, Verdict
from toolgauge.model.trajectory import Tokens
from toolgauge.settings import HOUR, SECOND, Prices, Section

RunOutcome: TypeAlias = Literal["pass", "fail", "not_evaluated"]
Measure: TypeAlias = Literal["tokens", "duration", "cost"]
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)
_Glob = Annotated[str, Field(min_length=1)]
_DEFAULTS = "default.*"
_MAX_VERDICTS, _MAX_MODELS = 4096, 512
# Longer runs have spans of clocks that are years apart.
_LONGEST_NS = 30 * 24 * HOUR


class CostSettings(Section):
    """Prices by the model's name (globs, the first that fits counts), and the criteria that decide on success (globs).

    `currency` is that of all prices, and of the costs that producers record.
    """

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "USD"
    prices: dict[_Glob, Prices] = Field(default_factory=dict[str, Prices])
    success: Annotated[tuple[_Glob, ...], Field(min_length=1)] = (_DEFAULTS,)

    @property
    def names_success(self) -> bool:
        """Whether it names criteria of success."""
        return self.success != (_DEFAULTS,)


class RunUsage(Struct, frozen=True, gc=False):
    """One run: its outcome, tokens, seconds, and cost, `None` where not recorded, and the settings it was read by."""

    outcome: RunOutcome
    tokens: float | None
    duration: float | None
    cost: float | None
    settings: CostSettings = CostSettings()


class RunUsageReader:
    """Reads the usage of runs. Belongs to one thread."""

    def __init__(self, settings: CostSettings) -> None:
        # The same few verdicts and models come all day long.
        @lru_cache(_MAX_VERDICTS)
        def outcome(verdict: Verdict) -> RunOutcome:
            words = [
                finding.word
                for finding in verdict.findings
                if finding.enforce == "live"
                and finding.can_fail
                and any(fnmatchcase(finding.criterion, glob) for glob in settings.success)
            ]
            return "fail" if "fail" in words else "pass" if "pass" in words else "not_evaluated"

        @lru_cache(_MAX_MODELS)
        def prices(model: str) -> Prices | None:
            return next((one for glob, one in settings.prices.items() if fnmatchcase(model, glob)), None)

        self._outcome, self._prices, self._settings = outcome, prices, settings

    def read(self, scorecard: Scorecard) -> RunUsage | None:
        """Return the usage of a run; `None` for conversations, whose runs are read by themselves, and for late results."""
        trajectory = scorecard.trajectory
        if scorecard.by_judges or trajectory.scope != "trace":
            return None
        # Rule: a run passes when a criterion of `costs.success` passed and none failed.
        outcome: RunOutcome = "not_evaluated"
        for verdict in scorecard.verdicts:
            of_verdict = self._outcome(verdict)
            if of_verdict != "not_evaluated":
                outcome = of_verdict
            if of_verdict == "fail":
                break
        tokens, lasted_ns = trajectory.tokens, trajectory.end_ns - trajectory.start_ns
        return RunUsage(
            outcome,
            None if tokens is None else float(tokens.input + tokens.output),
            lasted_ns / SECOND if trajectory.start_ns and 0 <= lasted_ns <= _LONGEST_NS else None,
            None if tokens is None else self._cost(tokens),
            self._settings,
        )

    def _cost(self, tokens: Tokens) -> float | None:
        """Return the cost of a run; `None` where the price of any of its models is not known."""
        if tokens.cost is None and not tokens.unpriced:
            return None
        cost = tokens.cost or 0.0
        for model, (sent, received) in tokens.unpriced.items():
            prices = self._prices(model)
            if prices is None:
                return None
            cost += prices.cost(sent, received)
        return cost


class RunTotals:
    """The usage of many runs. `runs` counts them by outcome."""

    def __init__(self) -> None:
        self.runs: Counter[RunOutcome] = Counter()
        self._sums: Counter[Measure] = Counter()
        self._recorded: Counter[tuple[Measure, RunOutcome]] = Counter()
        self._settings = CostSettings()

    def add(self, usage: RunUsage) -> None:
        """Add a run."""
        self.runs[usage.outcome] += 1
        self._settings = usage.settings
        for measure in MEASURES:
            if (value := getattr(usage, measure)) is not None:
                self._sums[measure] += value
                self._recorded[measure, usage.outcome] += 1

    def join(self, other: "RunTotals") -> None:
        """Add the runs of another."""
        self.runs.update(other.runs)
        self._sums.update(other._sums)  # noqa: SLF001 (its own kind)
        self._recorded.update(other._recorded)  # noqa: SLF001
        self._settings = other._settings if other.runs else self._settings  # noqa: SLF001

    def summary(self) -> "RunSummary":
        """Return all figures; those of success are the sum of all runs that recorded it by the passed runs among them."""
        passed: dict[Measure, int] = {measure: self._recorded[measure, "pass"] for measure in MEASURES}
        recorded = self._recorded.items()
        return RunSummary(
            runs={outcome: self.runs[outcome] for outcome in get_args(RunOutcome)},
            recorded={measure: sum(runs for (of, _), runs in recorded if of == measure) for measure in MEASURES},
            of_success={one: self._sums[one] / runs if runs else None for one, runs in passed.items()},
            names_success=self._settings.names_success,
            currency=self._settings.currency,
        )


class RunSummary(Struct, frozen=True, kw_only=True):
    """Runs by outcome; for each measure the runs that recorded it, and their sum by the runs that passed, `None` where none did."""

    runs: dict[RunOutcome, int]
    recorded: dict[Measure, int]
    of_success: dict[Measure, float | None]
    names_success: bool = False
    currency: str = ""
