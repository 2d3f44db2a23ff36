"""What scores without references see in recorded agent runs, what they flag wrongly, and what they cost.

    python -m tools.bench.reference_free RECORDINGS [--only NAME ...]

RECORDINGS is a folder with `tau`, `tau-content-none`, `tau-content-full` and `bfcl`, each a manifest with verdicts and a folder
of streams for each dialect (see `recorded_runs`). Each figure is a line with its target; the table at the end holds all of
them. Default criteria with `defaults.scope: conversation`, unless a line says otherwise.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from random import Random
from statistics import mean

from toolgauge.model.outcomes import Result
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import load_for_replay
from tools.bench.doubled_acts import doubled
from tools.bench.recorded_runs import (
    DIALECTS,
    Run,
    ScoredRun,
    area_under_curve,
    number,
    one_trace_a_conversation,
    runs_of,
    scored_runs,
    word,
    writes,
)
from tools.bench.reference_free_cost import (
    bytes_an_open_conversation,
    long_conversation,
    microseconds_a_call,
    result_bytes,
    with_large_results,
)
from tools.bench.swapped_ids import swaps

F1 = """
criteria:
  - {name: f1, evaluator: tool_call_f1, tools: writes, scope: conversation, reference: CASES, arguments: {"*": lenient}}
  - {name: f1.exact, evaluator: tool_call_f1, tools: writes, scope: conversation, reference: CASES}
  - {name: f1.all, evaluator: tool_call_f1, scope: conversation, reference: CASES}
"""
F1_DOMAINS = (("airline", "retail"), ("airline",), ("retail",), ("telecom",))
BEFORE_AND_AFTER = (
    ("tau2-airline-gpt-4.1", "tau2-airline-qwen2.5-7b"),
    ("tau2-telecom-gpt-4.1-sft", "tau2-telecom-gpt-4.1"),
)
GROUNDED = "default.grounded_arguments"
ONE_EFFECT = "default.one_effect"
# Those whose score depends on arguments, results or messages.
NEED_CONTENT = ("grounded_arguments", "arguments_schema", "repeated_calls")


@dataclass(frozen=True)
class Figure:
    """One line of the table; `is_met` is `None` where nothing is aimed at."""

    name: str
    value: str
    target: str = ""
    is_met: bool | None = None

    def __str__(self) -> str:
        mark = {True: "met", False: "MISSED", None: ""}[self.is_met]
        return f"{self.name}: {self.value}" + (f" (target {self.target}: {mark})" if self.target else "")


class Recordings:
    """The folder, and what was made of it, each replayed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scored = cache(self._scored)

    def _scored(self, name: str, dialect: str) -> dict[str, ScoredRun]:
        return scored_runs(self.folder / name, dialect, criteria=F1 if name == "tau" else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--only", choices=STUDIES, nargs="+", default=list(STUDIES))
    chosen = parser.parse_args()
    recordings = Recordings(chosen.recordings)
    figures: list[Figure] = []
    for name in chosen.only:
        print(f"\n== {name}", flush=True)
        for figure in STUDIES[name](recordings):
            print(figure, flush=True)
            figures.append(figure)
    print("\n| figure | value | target | |\n|---|---|---|---|")
    for one in figures:
        print(f"| {one.name} | {one.value} | {one.target} | {({True: 'met', False: 'missed', None: ''})[one.is_met]} |")


def grounded(recordings: Recordings) -> Iterator[Figure]:
    """Flagged state-changing calls of passed runs, and planted ids of other customers."""
    runs = recordings.scored("tau", "genai")
    passed = [one for one in runs.values() if one.run.has_passed]
    flagged = {one.run.name: found for one in passed if (found := _ungrounded_writes(one))}
    for name, found in flagged.items():
        for result in found:
            print(f"  {name}: {_described(result)}")
    judged = sum(any(r.criterion == GROUNDED and number(r) is not None for r in one.results) for one in passed)
    target = "at most 1"
    yield Figure(
        "passed runs with an ungrounded state-changing call",
        f"{len(flagged)} of {len(passed)}",
        target,
        len(flagged) <= 1 and judged > 0,
    )
    yield Figure("passed runs where grounding was judged", f"{judged} of {len(passed)}")
    planted = [
        swap for criterion in _defaults() if criterion.name == GROUNDED for swap in swaps(runs.values(), criterion)
    ]
    for swap in planted:
        if not swap.is_flagged:
            print(f"  not flagged: {swap}")
    found = sum(swap.is_flagged for swap in planted)
    share = _share(swap.is_flagged for swap in planted)
    yield Figure(
        "planted ids of other customers flagged",
        f"{found} of {len(planted)}, {share:.1%}",
        "at least 95 %",
        share >= 0.95,
    )


def made_once(recordings: Recordings) -> Iterator[Figure]:
    """Acts that are made a second time, and what passed runs are flagged for."""
    runs = recordings.scored("tau", "genai")
    (criterion,) = [one for one in _defaults() if one.name == ONE_EFFECT]
    found = list(doubled(runs.values(), criterion))
    for one in found:
        if not one.has_same_result and one.outcome != "fail":
            print(f"  not flagged: {one}")
    for is_later, target in ((False, 0.95), (True, 0.9)):
        planted = [one for one in found if one.is_later is is_later and not one.has_same_result]
        flagged = sum(one.outcome == "fail" for one in planted)
        name = f"acts made again {'after' if is_later else 'before'} a further message of the user, with another result"
        is_met = flagged >= target * len(planted) > 0
        yield Figure(f"{name}, failed", f"{flagged} of {len(planted)}", f"at least {target:.0%}", is_met)
    same = [one for one in found if one.has_same_result]
    shown = sum(one.outcome == "pass" and one.score == 1 / 2 for one in same)
    yield Figure("acts made again with the same result, passed with 1/2", f"{shown} of {len(same)}")
    flagged = [one.run.name for one in runs.values() if ONE_EFFECT in one.fails()]
    yield Figure("runs as recorded with an act made twice", f"{len(flagged)} of {len(runs)}", "0", not flagged)


def healthy(recordings: Recordings) -> Iterator[Figure]:
    """How often default criteria fail on runs that passed."""
    runs = recordings.scored("tau", "genai").values()
    passed = [one for one in runs if one.run.has_passed]
    smooth = [one for one in passed if not one.run.has_failed_call and one.run.most_identical < 2]
    _print_fails(passed)
    yield _fail_share("any default fail on passed runs without failing calls or repeats", smooth, 0.10)
    yield _fail_share("any default fail on all passed runs", passed, 0.25)
    apart = scored_runs(recordings.folder / "tau", "genai", overrides=()).values()
    yield _fail_share("the same, each trace by itself", [one for one in apart if one.run.has_passed], None)
    for criterion in sorted({name for one in runs for name in one.fails()}):
        failed = [one for one in runs if not one.run.has_passed]
        shares = [_share(criterion in one.fails() for one in group) for group in (smooth, passed, failed)]
        yield Figure(
            f"`{criterion}` fails on smooth, all passed, and failed runs", ", ".join(f"{s:.1%}" for s in shares)
        )


def caught(recordings: Recordings) -> Iterator[Figure]:
    """How many runs with a failure that was never mended, or a call made three times, have a default fail."""
    runs = [one for one in recordings.scored("tau", "genai").values() if _is_troubled(one.run)]
    for one in runs:
        if not one.fails():
            print(
                f"  not caught: {one.run.name} (unmended: {one.run.has_unmended_failure}, identical: {one.run.most_identical})"
            )
    share = _share(bool(one.fails()) for one in runs)
    yield Figure(
        "runs with an unmended failure or 3 identical calls caught",
        f"{share:.1%} of {len(runs)}",
        "at least 90 %",
        share >= 0.9,
    )


def _is_troubled(run: Run) -> bool:
    return run.has_unmended_failure or run.most_identical >= 3


def f1(recordings: Recordings) -> Iterator[Figure]:
    """How well F1 tells passed from failed runs."""
    names = {"f1": "writes, lenient", "f1.exact": "writes, exact", "f1.all": "all calls, exact"}
    for dialect, (criterion, calls), domains in product(DIALECTS, names.items(), F1_DOMAINS):
        chosen = [one for one in recordings.scored("tau", dialect).values() if one.run.domain in domains]
        passed, failed = (_values(criterion, chosen, has_passed=has_passed) for has_passed in (True, False))
        area = area_under_curve(passed, failed)
        name = f"AUC of F1 over {calls}: {' and '.join(domains)}, {dialect}"
        value = f"{area:.3f} of {len(passed) + len(failed)} runs"
        is_aimed_at = criterion == "f1" and domains == F1_DOMAINS[0]
        yield Figure(name, value, "at least 0.95", area >= 0.95) if is_aimed_at else Figure(name, value)
    yield from _same_changes(
        [one for one in recordings.scored("tau", "genai").values() if one.run.domain in F1_DOMAINS[0]]
    )


def _same_changes(runs: Sequence[ScoredRun]) -> Iterator[Figure]:
    """Failed runs that no comparison of state-changing calls can tell from passed ones, and the AUC without them.

    They made the expected changes: the benchmark failed them for an answer to the user, or never graded them.
    """
    alike = [one for one in runs if not one.run.has_passed and one.value("f1") == 1]
    for one in alike:
        print(f"  failed with F1 1: {one.run.name} {dict(one.run.row['verdict'])}")
    for one in runs:
        if one.run.has_passed and one.value("f1") != 1:
            print(f"  passed with F1 {one.value('f1')}: {one.run.name}")
    wrong = sum(one.run.has_wrong_state for one in alike)
    yield Figure(
        "failed runs with F1 1 whose records the benchmark found wrong", f"{wrong} of {len(alike)}", "0", not wrong
    )
    judged = [one for one in runs if one.run.has_passed or one.run.has_wrong_state]
    passed, failed = (_values("f1", judged, has_passed=has_passed) for has_passed in (True, False))
    area = area_under_curve(passed, failed)
    yield Figure(
        "AUC of F1 over writes, lenient, against wrong records: airline and retail",
        f"{area:.3f} of {len(judged)} runs",
        "at least 0.95",
        area >= 0.95,
    )


def _values(criterion: str, runs: Sequence[ScoredRun], *, has_passed: bool) -> list[float]:
    values = [one.value(criterion) for one in runs if one.run.has_passed is has_passed]
    return [value for value in values if value is not None]


def dialects(recordings: Recordings) -> Iterator[Figure]:
    """How many results of a run are the same in both dialects."""
    one, other = (recordings.scored("tau", dialect) for dialect in DIALECTS)
    yield from _alike("results equal in both dialects", one, other)


def layouts(recordings: Recordings) -> Iterator[Figure]:
    """How many results are the same where a run's traces are one trace."""
    folder = recordings.folder / "tau"
    runs = [run for run in runs_of(folder) if len(run.trace_ids("genai")) > 1]
    joined = scored_runs(
        folder, "genai", criteria=F1, rewrite=partial(one_trace_a_conversation, runs=runs_of(folder), dialect="genai")
    )
    apart = recordings.scored("tau", "genai")
    names = [run.name for run in runs]
    yield from _alike(
        "results equal with one trace a turn and one a conversation",
        {n: apart[n] for n in names},
        {n: joined[n] for n in names},
    )


def without_content(recordings: Recordings) -> Iterator[Figure]:
    """What is made of runs without any message, argument or result."""
    for dialect in DIALECTS:
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for one in recordings.scored("tau-content-none", dialect).values():
            for result in one.results:
                found[result.criterion][_outcome(result)] += 1
        for criterion, counts in sorted(found.items()):
            yield Figure(
                f"without content, {dialect}: `{criterion}`", ", ".join(f"{n} {w}" for w, n in counts.most_common())
            )
        numbers = sum(
            n
            for name in found
            if name.rpartition(".")[2] in NEED_CONTENT
            for w, n in found[name].items()
            if w in ("pass", "fail")
        )
        yield Figure(f"numbers from criteria that need content, {dialect}", str(numbers), "0", numbers == 0)


def releases(recordings: Recordings) -> Iterator[Figure]:
    """The mean of each criterion before and after a worse release."""
    runs = recordings.scored("tau", "genai").values()
    for before, after in BEFORE_AND_AFTER:
        groups = [[one for one in runs if one.run.source == source] for source in (before, after)]
        shares = [_share(one.run.has_passed for one in group) for group in groups]
        yield Figure(f"{before} -> {after}: recorded verdict passed", " -> ".join(f"{share:.3f}" for share in shares))
        for criterion in sorted({result.criterion for group in groups for one in group for result in one.results}):
            yield Figure(
                f"{before} -> {after}: `{criterion}`", " -> ".join(_mean(criterion, group) for group in groups)
            )


def questions(recordings: Recordings) -> Iterator[Figure]:
    """BFCL: right answers, and answers with one mutation."""
    runs = recordings.scored("bfcl", "genai").values()
    for passed in (True, False):
        group = [one for one in runs if one.run.has_passed is passed]
        yield _fail_share(f"any default fail on {'right' if passed else 'mutated'} answers of BFCL", group, None)
        for criterion, count in Counter(name for one in group for name in one.fails()).most_common():
            yield Figure(f"  of these `{criterion}`", str(count))


def cost(recordings: Recordings) -> Iterator[Figure]:
    """CPU of all default criteria, and memory."""
    runs = list(recordings.scored("tau", "genai").values())
    trajectories = [one.conversations[0] for one in runs if one.conversations and one.conversations[0].calls]
    sizes = sorted(result_bytes(trajectories))
    recorded = microseconds_a_call(_defaults(), trajectories)
    yield Figure(
        f"CPU a call, recorded (median result {sizes[len(sizes) // 2]} bytes)",
        f"{recorded:.0f} us",
        "under 60 us",
        recorded < 60,
    )
    for criterion in _defaults():
        yield Figure(f"  of these `{criterion.name}`", f"{microseconds_a_call((criterion,), trajectories):.1f} us")
    random = Random(1)  # noqa: S311 repeatable
    large = microseconds_a_call(_defaults(), [with_large_results(one, 100_000, random) for one in trajectories[:20]])
    yield Figure("CPU a call, results of 100 KB", f"{large:.0f} us", "under 500 us", large < 500)
    spent = {
        calls: microseconds_a_call(_defaults(), [long_conversation(trajectories, calls)] * 3)
        for calls in (25, 50, 100, 200, 400)
    }
    growth = spent[200] / spent[50]
    yield Figure(
        "CPU a call by length of the conversation",
        ", ".join(f"{calls}: {us:.0f} us" for calls, us in spent.items()),
        "linear (200 at most 1.5 x 50)",
        growth <= 1.5,
    )
    memory = bytes_an_open_conversation(recordings.folder / "tau" / "genai", runs)
    yield Figure("memory of an open conversation", f"{memory / 1024:.0f} KiB")


def _defaults() -> tuple[Criterion, ...]:
    _, criteria = load_for_replay((), ("defaults.scope=conversation",), (), {})
    return criteria


def _alike(name: str, one: Mapping[str, ScoredRun], other: Mapping[str, ScoredRun]) -> Iterator[Figure]:
    differing: Counter[str] = Counter()
    total = 0
    for run in one:
        here, there = one[run].by_place(), other[run].by_place()
        total += len(places := here.keys() | there.keys())
        for place in places:
            if here.get(place) != there.get(place):
                differing[place[0]] += 1
                print(f"  {run} {place}: {here.get(place)} and {there.get(place)}")
    share = 1 - differing.total() / total
    yield Figure(name, f"{share:.4f} of {total}", "at least 0.99", share >= 0.99)
    for criterion, count in differing.most_common():
        yield Figure(f"  differing: `{criterion}`", str(count))


def _fail_share(name: str, group: Sequence[ScoredRun], most: float | None) -> Figure:
    share = _share(bool(one.fails()) for one in group)
    value = f"{share:.1%} of {len(group)}"
    return Figure(name, value) if most is None else Figure(name, value, f"at most {most:.0%}", share <= most)


def _share(found: Iterable[bool]) -> float:
    flags = list(found)
    return sum(flags) / len(flags) if flags else 0.0


def _mean(criterion: str, group: Sequence[ScoredRun]) -> str:
    """Mean over all results, and the share of runs with a fail."""
    results = [result for one in group for result in one.results if result.criterion == criterion]
    values = [value for result in results if (value := number(result)) is not None]
    if not values:
        return "none"
    failing = _share(any(word(r) == "fail" for r in one.results if r.criterion == criterion) for one in group)
    return f"{mean(values):.3f} ({len(values)}; fails in {failing:.0%} of runs)"


def _outcome(result: Result) -> str:
    return getattr(result.outcome, "reason", word(result)) if word(result) == "not_evaluated" else word(result)


def _ungrounded_writes(one: ScoredRun) -> list[Result]:
    return [result for result in one.fails().get(GROUNDED, ()) if result.call is not None and writes(result.call)]


def _print_fails(runs: Iterable[ScoredRun]) -> None:
    for one in runs:
        for criterion, results in one.fails().items():
            print(f"  {one.run.name} {criterion}: {' | '.join(map(_described, results[:3]))}")


def _described(result: Result) -> str:
    call = "" if result.call is None else f"call {result.call.order} {result.call.name}: "
    values = [
        f"{one.where}={one.actual.value!r}"[:80]
        for one in getattr(result.outcome, "differences", ())
        if one.actual is not None
    ]
    return f"{call}{getattr(result.outcome, 'explanation', '')[:200]} {values[:3] or ''}"


STUDIES: Mapping[str, Callable[[Recordings], Iterator[Figure]]] = {
    "grounded": grounded,
    "made_once": made_once,
    "healthy": healthy,
    "caught": caught,
    "f1": f1,
    "dialects": dialects,
    "layouts": layouts,
    "without_content": without_content,
    "releases": releases,
    "questions": questions,
    "cost": cost,
}

if __name__ == "__main__":
    main()
