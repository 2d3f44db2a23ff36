"""What separates runs that people marked bad from those they marked good, each difference as a criterion to paste.

Rules are learned from the good runs. A rule counts where its criterion, made from its own text, fails on bad runs and on no good one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent

from toolgauge.authoring.criteria_yaml import Written, is_plain, may_be_written, yaml_text
from toolgauge.config.criteria import read_criterion
from toolgauge.config.parse import parse_yaml
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.contracts import BY_NAME, ToolKinds
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import make_criterion

_MAX_RUNS, _MAX_FOLDS, _MAX_SHOWN = 60, 20, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Separator:
    """A difference between bad and good runs. Runs are named by their trace ids.

    `text` is a criterion in the shadow, an entry of a list: entries one below the other are a criteria file. It is empty where no
    criterion expresses the difference. The estimates count the bad and the good runs that fail what is learned without them, of all.
    """

    name: str
    sentence: str
    text: str
    found: tuple[str, ...]
    flagged: tuple[str, ...]
    estimated_found: tuple[int, int]
    estimated_flagged: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """The differences of `bad` and `good` runs, the best first.

    The first `chosen` of the separators find most bad runs together: `all_together` is the criteria file of these. `already` are
    criteria in use that fail on bad runs, `differences` versions and models. `unused` counts the marked runs left out:
    marked twice, or more than are compared.
    """

    separators: tuple[Separator, ...]
    chosen: int
    all_together: Separator
    already: tuple[Separator, ...]
    differences: tuple[Separator, ...]
    bad: int
    good: int
    unused: int


@dataclass(slots=True, eq=False)
class _Run:
    trajectory: Trajectory
    # By tool, the tools that had worked in turns before its first call.
    before: Mapping[str, frozenset[str]]
    # The failing criteria in use, and those made from texts here.
    failing: set[str]
    judged: dict[str, bool] = field(default_factory=dict[str, bool])


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    sentence: str
    text: str


def separate(
    bad: Sequence[Scorecard],
    good: Sequence[Scorecard],
    others: Sequence[Scorecard] = (),
    *,
    kinds: ToolKinds = BY_NAME,
) -> Separation:
    """Compare runs that people marked; `others` are runs without a mark."""
    del others
    bad_runs, good_runs = _runs(bad), _runs(good)
    for contradictory in bad_runs.keys() & good_runs.keys():
        del bad_runs[contradictory], good_runs[contradictory]
    fails, passes = list(bad_runs.values())[:_MAX_RUNS], list(good_runs.values())[:_MAX_RUNS]
    rules = _learned(fails, passes, kinds)
    size = max(1, min(_MAX_FOLDS, max(len(fails), len(passes))))
    found, flagged, together = Counter[str](), Counter[str](), [0, 0]
    for fold in range(size):
        left_bad, left_good = fails[fold::size], passes[fold::size]
        kept = [one for one in fails if one not in left_bad], [one for one in passes if one not in left_good]
        learned = _learned(*kept, kinds)
        for rule in learned:
            found[rule.name] += sum(_fails(rule.text, left_bad, kinds))
            flagged[rule.name] += sum(_fails(rule.text, left_good, kinds))
        for place, left in enumerate((left_bad, left_good)):
            together[place] += sum(any(one.judged[rule.text] for rule in learned) for one in left)
    counts = (len(fails), len(passes))

    def separator(rule: _Rule, failing: Sequence[Sequence[bool]], estimates: Sequence[int]) -> Separator:
        ids = [
            tuple(run.trajectory.trace_id for run, fails in zip(runs, flags, strict=True) if fails)
            for runs, flags in zip((fails, passes), failing, strict=True)
        ]
        return Separator(
            name=rule.name,
            sentence=rule.sentence,
            text=rule.text,
            found=ids[0],
            flagged=ids[1],
            estimated_found=(estimates[0], counts[0]),
            estimated_flagged=(estimates[1], counts[1]),
        )

    separators = [
        separator(
            one, [_fails(one.text, runs, kinds) for runs in (fails, passes)], (found[one.name], flagged[one.name])
        )
        for one in rules
    ]
    separators.sort(key=lambda one: (-len(one.found), one.name))
    union = [[any(one.judged[rule.text] for rule in rules) for one in runs] for runs in (fails, passes)]
    whole = _Rule("learned", "", "".join(one.text for one in separators))
    already = [
        separator(_Rule(name, f"`{name}` fails", ""), flags, [sum(one) for one in flags])
        for name in sorted({name for run in fails for name in run.failing})
        for flags in [[[name in run.failing for run in runs] for runs in (fails, passes)]]
    ]
    return Separation(
        separators=tuple(separators[:_MAX_SHOWN]),
        chosen=len(separators[:_MAX_SHOWN]),
        all_together=separator(whole, union, together),
        already=tuple(already),
        differences=(),
        bad=counts[0],
        good=counts[1],
        unused=len(bad) + len(good) - sum(counts),
    )


def _runs(scorecards: Iterable[Scorecard]) -> dict[str, _Run]:
    runs: dict[str, _Run] = {}
    for one in scorecards:
        trajectory = one.trajectory
        run = runs.setdefault(trajectory.closed_id, _Run(trajectory, _before(trajectory), set()))
        run.failing.update(result.criterion for result in one.results if outcome_word(result.outcome) == "fail")
    return runs


def _before(trajectory: Trajectory) -> Mapping[str, frozenset[str]]:
    before: dict[str, frozenset[str]] = {}
    worked, here, turn = set[str](), set[str](), -1
    for call in trajectory.calls:
        if call.turn != turn:
            worked |= here
            here, turn = set[str](), call.turn
        before.setdefault(call.name, frozenset(worked))
        if not call.has_failed:
            here.add(call.name)
    return before


def _learned(bad: Sequence[_Run], good: Sequence[_Run], kinds: ToolKinds) -> list[_Rule]:
    candidates = _candidates(bad, good)
    return [one for one in candidates if any(_fails(one.text, bad, kinds)) and not any(_fails(one.text, good, kinds))]


def _candidates(bad: Sequence[_Run], good: Sequence[_Run]) -> Iterator[_Rule]:
    runs = Counter(name for run in (*bad, *good) for name in run.before)
    names = [
        name for name in sorted(runs) if is_plain(name) and may_be_written(name, is_offered=False, runs=runs[name])
    ]
    counts = {name: [sum(call.name == name for call in run.trajectory.calls) for run in good] for name in names}
    for name in names:
        befores = [run.before[name] for run in good if name in run.before]
        for other in sorted(frozenset.intersection(*befores) & set(names)) if befores else ():
            rule: Written = {"before": name, "call": other}
            yield _rule(
                name, "before", f"`{name}` without `{other}` before it", {"evaluator": "order_rules", "rules": [rule]}
            )
        most = max(counts[name], default=0)
        if most:
            limit: Written = {"at_most": most, "call": name}
            yield _rule(
                name, "at_most", f"`{name}` more than {most} times", {"evaluator": "order_rules", "rules": [limit]}
            )


def _rule(tool: str, kind: str, sentence: str, parameters: Mapping[str, Written]) -> _Rule:
    name = f"learned.{re.sub('[^a-z0-9_]+', '-', tool.lower())[:40]}.{kind}"
    text = yaml_text({"criteria": [{"name": name, "enforce": "shadow", **parameters}]})
    return _Rule(name, sentence, dedent(text.partition("\n")[2]))


def _fails(text: str, runs: Sequence[_Run], kinds: ToolKinds) -> list[bool]:
    scorer: Scorer | None = None
    for run in runs:
        if text not in run.judged:
            if scorer is None:
                node = parse_yaml(text, "learned", {}).items()[0]
                scorer = Scorer([make_criterion(read_criterion(node))], kinds)
            results = scorer.score(run.trajectory)
            run.judged[text] = any(outcome_word(one.outcome) == "fail" for one in results)
    return [run.judged[text] for run in runs]
