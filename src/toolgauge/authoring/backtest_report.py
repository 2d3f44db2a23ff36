"""A backtest as one JSON object, and as tables for a person. The same recording gives the same report, byte for byte."""

from collections.abc import Iterator, Mapping, Sequence

from toolgauge.authoring.firings import Agreement, Backtest, Share
from toolgauge.authoring.labels import LabelSet
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import OutcomeWord
from toolgauge.report.findings import CriterionCounts
from toolgauge.report.terminal import PLAIN, Style, aligned, printable, shortened
from toolgauge.score.criterion import Criterion

TOGETHER = "all together"
_WORDS: tuple[OutcomeWord, ...] = ("pass", "fail", "error", "not_evaluated")
_NAME_LENGTH = 60


class Report:
    """The findings on each criterion, and last on all together: the firings and the agreement with each label set."""

    def __init__(
        self, backtest: Backtest, labels: Sequence[LabelSet], judge_calls: Mapping[str, int], explains: str
    ) -> None:
        """`explains` is the command that explains a trace."""
        self._explains = explains
        self.backtest, self.labels, self.judge_calls = backtest, labels, judge_calls
        self.firings = backtest.firings()
        self.agreements = [backtest.agreements(one) for one in labels]

    def as_object(self) -> JsonObject:
        """Describe it for `--json`."""
        backtest = self.backtest
        together = len(backtest.criteria)
        return {
            "trajectories": backtest.trajectories,
            "runs": backtest.runs,
            "first_ns": backtest.first_ns,
            "last_ns": backtest.last_ns or None,
            "labels": [
                {
                    "name": labels.name,
                    "passed": sum(verdict is True for verdict in labels.verdicts.values()),
                    "failed": sum(verdict is False for verdict in labels.verdicts.values()),
                    "contradicted": labels.contradicted,
                    "unread": labels.unread,
                    "unmatched": len(labels.unmatched(set(backtest.seen()))),
                }
                for labels in self.labels
            ],
            "criteria": [
                {**self._results_object(criterion), **self._runs_object(number, can_fail=criterion.pass_at > 0)}
                for number, criterion in enumerate(backtest.criteria)
            ],
            "all_together": self._runs_object(together, can_fail=True),
        }

    def _results_object(self, criterion: Criterion) -> JsonObject:
        counts = self.backtest.results[criterion.name]
        return {
            "criterion": criterion.name,
            "revision": criterion.revision,
            "evaluator": criterion.evaluator_name,
            "level": criterion.evaluator.level,
            "enforce": criterion.enforce,
            "can_fail": criterion.pass_at > 0,
            "results": {word: counts.words[word] for word in _WORDS},
            "reasons": dict(_by_count(counts)),
            "judge_calls": self.judge_calls.get(criterion.name, 0),
        }

    def _runs_object(self, number: int, *, can_fail: bool) -> JsonObject:
        labels: Json = [
            {"label": labels.name, **_agreement_object(agreements[number])}
            for labels, agreements in zip(self.labels, self.agreements, strict=True)
            if can_fail
        ]
        fired, trace_ids = self.firings[number].runs.as_object(), list[Json](self.firings[number].trace_ids)
        return {"fired": fired, "trace_ids": trace_ids, "labels": labels}

    def lines(self, style: Style = PLAIN) -> Iterator[str]:
        """Write tables: results and runs of each criterion, then the criteria beside each label set, then traces to look at."""
        backtest = self.backtest
        yield f"{backtest.trajectories} trajectories of {backtest.runs} runs"
        yield ""
        rows = [self._row(criterion, number) for number, criterion in self._shown()]
        together = self.firings[-1].runs
        rows.append((TOGETHER, "-", "", "", "", _plain(together), str(together), ""))
        yield from _table(_HEADS, rows, style)
        for labels, agreements in zip(self.labels, self.agreements, strict=True):
            yield ""
            verdicts = list(labels.verdicts.values())
            parts = [f"{verdicts.count(True)} passed", f"{verdicts.count(False)} failed"]
            if labels.contradicted:
                parts.append(f"{labels.contradicted} with different verdicts, left out")
            yield f"labels `{shortened(labels.name, _NAME_LENGTH)}`: {', '.join(parts)}"
            failing = [(_title(one), agreements[number]) for number, one in self._shown() if one.pass_at > 0]
            rows = list[tuple[str, ...]]()
            for title, one in (*failing, (TOGETHER, agreements[-1])):
                shares = (str(share) for share in (one.precision, one.recall, one.agreement))
                rows.append((title, _plain(one.passed), _plain(one.failed), str(one.not_judged), *shares))
            yield from _table(_LABEL_HEADS, rows, style)
        found = [(what, traces) for what, traces in self._traces() if traces]
        if found:
            yield ""
            yield style.head(f"traces to look at first, as in `{self._explains}`")
        for what, traces in found:
            yield f"  {what}"
            yield from (f"    {trace}" for trace in traces)
        if any(self.judge_calls.values()):
            total = sum(self.judge_calls.values())
            yield ""
            counts = sorted(self.judge_calls.items())
            calls = ", ".join(f"`{printable(name)}` {count}" for name, count in counts if count)
            yield f"judge calls that `toolgauge serve` would make: at least {total} ({calls})"

    def _shown(self) -> Iterator[tuple[int, Criterion]]:
        """Leave out default criteria without results."""
        for number, criterion in enumerate(self.backtest.criteria):
            if self.backtest.results[criterion.name].words or not criterion.is_default:
                yield number, criterion

    def _row(self, criterion: Criterion, number: int) -> tuple[str, ...]:
        counts = self.backtest.results[criterion.name]
        words = (str(counts.words[word]) for word in ("pass", "fail", "error"))
        runs = self.firings[number].runs
        fired = _plain(runs) if criterion.pass_at > 0 else "never fails"
        share = str(runs) if criterion.pass_at > 0 else "-"
        count = counts.words["not_evaluated"]
        unseen = f"{count}: {', '.join(f'{reason} {of}' for reason, of in _by_count(counts))}" if count else "0"
        return (_title(criterion), criterion.evaluator.level, *words, fired, share, unseen)

    def _traces(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield traces with a heading; a failure that a single criterion misses may be found by another."""
        if not self.labels:
            for number, criterion in self._shown():
                yield f"`{_title(criterion)}` fired", self.firings[number].trace_ids
        for labels, agreements in zip(self.labels, self.agreements, strict=True):
            by = f" by `{shortened(labels.name, _NAME_LENGTH)}`" if len(self.labels) > 1 else ""
            for number, criterion in self._shown():
                yield f"`{_title(criterion)}` fired, labelled as passed{by}", agreements[number].false_alarms
            yield f"no criterion fired, labelled as failed{by}", agreements[-1].missed


_HEADS = ("criterion", "level", "pass", "fail", "error", "runs flagged", "share [95 %]", "not evaluated")
_LABEL_HEADS = ("criterion", "on passed", "on failed", "not judged", "precision", "recall", "agreement")


def _by_count(counts: CriterionCounts) -> list[tuple[str, int]]:
    return sorted(counts.reasons.items(), key=lambda entry: (-entry[1], entry[0]))


def _agreement_object(agreement: Agreement) -> JsonObject:
    return {
        "passed_runs": agreement.passed.as_object(),
        "failed_runs": agreement.failed.as_object(),
        "not_judged": agreement.not_judged,
        "precision": agreement.precision.as_object(),
        "recall": agreement.recall.as_object(),
        "agreement": agreement.agreement.as_object(),
        "false_alarms": list(agreement.false_alarms),
        "missed": list(agreement.missed),
    }


def _plain(share: Share) -> str:
    return f"{share.count} of {share.of}"


def _title(criterion: Criterion) -> str:
    return printable(criterion.name) + (" (shadow)" if criterion.enforce == "shadow" else "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], style: Style) -> Iterator[str]:
    head, *lines = aligned((heads, *rows))
    yield from (style.head(head), *lines)
