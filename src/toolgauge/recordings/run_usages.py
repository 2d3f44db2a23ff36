"""What a run that passed takes in two releases, side by side: tokens, time and cost of all runs by those that passed."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from toolgauge.export.run_usage import MEASURES, CostSettings, RunSummary, RunTotals, RunUsageReader
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.comparison import Versions
from toolgauge.report.catalogue_text import MEASURE_WORDS, of_success, passed_words, runs_words
from toolgauge.report.markdown import code
from toolgauge.report.terminal import PLAIN, Style, shortened

_NAME_LENGTH = 60


class ComparedRuns(Struct, frozen=True, kw_only=True):
    """The runs of two versions of a service, of all services where `service` is `None`."""

    service: str | None
    base_version: str
    new_version: str
    base: RunSummary
    new: RunSummary


class RunUsages:
    """Collects the runs of recordings by version and service."""

    def __init__(self) -> None:
        self._totals: defaultdict[tuple[str, str | None], RunTotals] = defaultdict(RunTotals)

    def read(
        self, scored: Iterable[Scorecard], version_of: Callable[[Trajectory], str | None], costs: CostSettings
    ) -> Iterator[Scorecard]:
        """Yield the same scorecards, and add their runs."""
        reader = RunUsageReader(costs)
        for scorecard in scored:
            usage, version = reader.read(scorecard), version_of(scorecard.trajectory)
            if usage is not None and version is not None:
                self._totals[version, scorecard.trajectory.service].add(usage)
            yield scorecard

    def beside(self, versions: Sequence[Versions]) -> tuple[ComparedRuns, ...]:
        """Set the runs of two versions side by side, where any were read."""
        if not self._totals:
            return ()
        return tuple(
            ComparedRuns(
                service=one.service,
                base_version=one.base,
                new_version=one.new,
                base=self._summary(one.base, one.service),
                new=self._summary(one.new, one.service),
            )
            for one in versions
        )

    def _summary(self, version: str, service: str | None) -> RunSummary:
        total = RunTotals()
        for (of_version, of_service), totals in self._totals.items():
            if of_version == version and service in (None, of_service):
                total.join(totals)
        return total.summary()


def usage_lines(usages: Iterable[ComparedRuns], style: Style = PLAIN) -> Iterator[str]:
    """Describe runs for a person."""
    for one in usages:
        names = [shortened(name, _NAME_LENGTH) for name in (one.base_version, one.new_version)]
        service = "" if one.service is None else f", {shortened(one.service, _NAME_LENGTH)}"
        yield style.head(f"runs{service}: {' -> '.join(names)}")
        yield from (f"  {name}: {base} -> {new}" for name, base, new in _rows(one))
        yield ""


def usage_markdown(usages: Iterable[ComparedRuns]) -> Iterator[str]:
    """Describe runs for a pull request."""
    for one in usages:
        yield ""
        yield f"| {code(one.service)} | {code(one.base_version)} | {code(one.new_version)} |"
        yield "|---|---|---|"
        yield from (f"| {name} | {base} | {new} |" for name, base, new in _rows(one))


def _rows(one: ComparedRuns) -> Iterator[tuple[str, str, str]]:
    yield "runs", runs_words(one.base), runs_words(one.new)
    for measure in MEASURES:
        words = f"{MEASURE_WORDS[measure]} of {passed_words(one.new)[1]}"
        yield words, of_success(one.base, measure), of_success(one.new, measure)
