"""The results of a recording, counted by criterion."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, OutcomeWord, Scorecard, Scored, outcome_word
from toolgauge.report.terminal import PLAIN, Style, outcome_styled, printable
from toolgauge.score.criterion import Criterion


class CriterionCounts:
    """Counts outcomes. Only scores enter the mean: what was not evaluated, and errors, are counted by themselves."""

    def __init__(self, name: str, *, is_default: bool = False, is_shadow: bool = False) -> None:
        self.name = name
        self.is_default = is_default
        self.is_shadow = is_shadow
        self.words = Counter[OutcomeWord]()
        self.reasons = Counter[str]()
        self._sum = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        match outcome:
            case Scored(value=value):
                self.count(outcome_word(outcome), value)
            case NotEvaluated(reason=reason):
                self.count("not_evaluated", reason=reason)
            case Errored():
                self.count("error")

    def count(self, word: OutcomeWord, value: float | None = None, reason: str | None = None) -> None:
        """Count one outcome that is known by its word, its score or the reason why it was not evaluated."""
        self.words[word] += 1
        if value is not None:
            self._sum += value
        elif word == "not_evaluated" and reason is not None:
            self.reasons[reason] += 1

    @property
    def scored(self) -> int:
        """How many outcomes are scores."""
        return self.words["pass"] + self.words["fail"]

    @property
    def mean(self) -> float | None:
        """The mean score; `None` where there is no score."""
        return self._sum / self.scored if self.scored else None

    @property
    def reasons_text(self) -> str:
        """Why outcomes are no scores, the commonest reason first."""
        return ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())


_HEAD = "criterion"
_COLUMNS: tuple[OutcomeWord, ...] = ("pass", "fail", "error")
_SHADOW = " (shadow)"


class Summary:
    """Counts results by criterion, in the order of the criteria."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._rows = {
            one.name: CriterionCounts(one.name, is_default=one.is_default, is_shadow=one.enforce == "shadow")
            for one in criteria
        }

    def add(self, scorecard: Scorecard) -> None:
        """Count the results of a trajectory."""
        for result in scorecard.results:
            self._rows[result.criterion].add(result.outcome)

    @property
    def counts(self) -> tuple[CriterionCounts, ...]:
        """The counts of each criterion."""
        return tuple(self._rows.values())

    @property
    def words(self) -> Counter[OutcomeWord]:
        """Count the results of all criteria."""
        return sum((row.words for row in self._rows.values()), Counter[OutcomeWord]())

    def lines(self, unmatched: Collection[str], style: Style = PLAIN) -> Iterator[str]:
        """Write a table; `unmatched` are the criteria that matched nothing. Default criteria without results are left out."""
        yield from table_lines(
            [row for row in self._rows.values() if row.words or not row.is_default], unmatched, style
        )


def table_lines(
    rows: Sequence[CriterionCounts], unmatched: Collection[str] = (), style: Style = PLAIN
) -> Iterator[str]:
    """Write a table with a line for each row."""
    if not rows:
        return
    titles = [(printable(row.name) + (_SHADOW if row.is_shadow else "")) for row in rows]
    width = max(len(_HEAD), *map(len, titles))
    head = f"{_HEAD:<{width}}  {'pass':>6}  {'fail':>6}  {'error':>6}  {'mean':>5}  {'of':>6}  not evaluated"
    yield style.head(head)
    for row, title in zip(rows, titles, strict=True):
        if row.words:
            yield f"{title:<{width}}  {_figures(row, style)}"
        else:
            why = "matched nothing" if row.name in unmatched else "no result"
            yield f"{title:<{width}}  {style.doubtful(why)}"


def _figures(row: CriterionCounts, style: Style) -> str:
    counts = "  ".join(_count(row.words[word], word, style) for word in _COLUMNS)
    mean = "-" if row.mean is None else f"{row.mean:.3f}"
    return f"{counts}  {mean:>5}  {row.scored:>6}  {_not_evaluated(row, style)}"


def _not_evaluated(row: CriterionCounts, style: Style) -> str:
    count = row.words["not_evaluated"]
    if not count:
        return "0"
    return style.doubtful(f"{count} ({_share(count, row.words.total())}): {row.reasons_text}")


def _count(count: int, word: OutcomeWord, style: Style) -> str:
    return outcome_styled(style, word, f"{count:>6}") if count else f"{count:>6}"


def _share(count: int, total: int) -> str:
    """Write a share without rounding it to nothing or to all."""
    percent = round(100 * count / total)
    if percent == 0:
        return "<1 %"
    return ">99 %" if percent == 100 and count < total else f"{percent} %"
