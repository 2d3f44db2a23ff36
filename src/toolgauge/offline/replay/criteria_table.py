"""The results of a recording, counted by criterion."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from toolgauge.model.outcomes import NotEvaluated, OutcomeWord, Scorecard, Scored, outcome_word
from toolgauge.offline.replay.result_lines import outcome_styled
from toolgauge.offline.terminal import PLAIN, Style, printable
from toolgauge.score.criterion import Criterion

_HEAD = "criterion"
_COLUMNS: tuple[OutcomeWord, ...] = ("pass", "fail", "error")
_SHADOW = " (shadow)"


class Summary:
    """Counts results by criterion, in the order of the criteria."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._rows = {criterion.name: _Row(criterion) for criterion in criteria}

    def add(self, scorecard: Scorecard) -> None:
        """Count the results of a trajectory."""
        for result in scorecard.results:
            row = self._rows[result.criterion]
            row.words[outcome_word(result.outcome)] += 1
            if isinstance(result.outcome, Scored):
                row.sum += result.outcome.value
            elif isinstance(result.outcome, NotEvaluated):
                row.reasons[result.outcome.reason] += 1

    @property
    def words(self) -> Counter[OutcomeWord]:
        """Count the results of all criteria."""
        return sum((row.words for row in self._rows.values()), Counter[OutcomeWord]())

    def lines(self, unmatched: Collection[str], style: Style = PLAIN) -> Iterator[str]:
        """Write a table; `unmatched` are the criteria that matched nothing. Default criteria without results are left out."""
        rows = [row for row in self._rows.values() if row.words or not row.is_default]
        if not rows:
            return
        width = max(len(_HEAD), *(len(row.title) for row in rows))
        head = f"{_HEAD:<{width}}  {'pass':>6}  {'fail':>6}  {'error':>6}  {'mean':>5}  {'of':>6}  not evaluated"
        yield style.head(head)
        for row in rows:
            if row.words:
                yield f"{row.title:<{width}}  {row.figures(style)}"
            else:
                why = "matched nothing" if row.name in unmatched else "no result"
                yield f"{row.title:<{width}}  {style.doubtful(why)}"


class _Row:
    def __init__(self, criterion: Criterion) -> None:
        self.name = criterion.name
        self.is_default = criterion.is_default
        self.title = printable(criterion.name) + (_SHADOW if criterion.enforce == "shadow" else "")
        self.words = Counter[OutcomeWord]()
        self.reasons = Counter[str]()
        self.sum = 0.0

    def figures(self, style: Style) -> str:
        counts = "  ".join(_count(self.words[word], word, style) for word in _COLUMNS)
        scored = self.words["pass"] + self.words["fail"]
        mean = f"{self.sum / scored:.3f}" if scored else "-"
        return f"{counts}  {mean:>5}  {scored:>6}  {self._not_evaluated(style)}"

    def _not_evaluated(self, style: Style) -> str:
        count = self.words["not_evaluated"]
        if not count:
            return "0"
        reasons = ", ".join(f"{reason} {number}" for reason, number in self.reasons.most_common())
        return style.doubtful(f"{count} ({_share(count, self.words.total())}): {reasons}")


def _count(count: int, word: OutcomeWord, style: Style) -> str:
    return outcome_styled(style, word, f"{count:>6}") if count else f"{count:>6}"


def _share(count: int, total: int) -> str:
    """Write a share without rounding it to nothing or to all."""
    percent = round(100 * count / total)
    if percent == 0:
        return "<1 %"
    return ">99 %" if percent == 100 and count < total else f"{percent} %"
