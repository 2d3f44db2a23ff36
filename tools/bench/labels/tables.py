"""The tables of `docs/evidence.md`, each between two comments by which the command finds and replaces it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolgauge.authoring.firings import Share
from tools.bench.labels.comparison import Comparisons, FailedSteps, pooled
from tools.bench.labels.labelled_runs import STRUCTURAL
from tools.bench.recorded_runs import ScoredRun, area_under_curve
from tools.bench.reference_free import F1_DOMAINS

SETS = {"trail-gaia": "TRAIL, GAIA", "trail-swe": "TRAIL, SWE", "agentrx-tau": "AgentRx, tau-retail"}
RECORDED = "tau-bench, tau2-bench"
_STEP_COLUMNS = ("failed: marked + repeats + recorded + wrong", "precision", "with repeats", "recall on tool steps")
# What people mark, by what can show it. The first kind shows in spans; the others need the meaning of a text.
KINDS = {
    "a broken call, tool or service": STRUCTURAL,
    "a result that was made up": frozenset(("Tool-related", "Language-only", "Invention of New Information")),
    "instructions not followed": frozenset(
        ("Instruction Non-compliance", "Instruction Adherence Failure", "Instruction/Plan Adherence Failure")
    ),
    "the wrong tool": frozenset(("Tool Selection Errors",)),
    "output of a tool misread": frozenset(("Tool Output Misinterpretation", "Misinterpretation of Tool Output")),
    "another aim or plan than asked for": frozenset(
        (
            "Goal Deviation",
            "Task Orchestration",
            "Incorrect Problem Identification",
            "Intent Plan Misalignment",
            "Intent-Plan Misalignment",
        )
    ),
}


@dataclass(frozen=True)
class Measured:
    """All that was measured: labelled sets by default and with `retries: count`, and recorded runs with verdicts."""

    default: Comparisons
    retries: Comparisons
    recorded: Mapping[str, ScoredRun] = field(default_factory=dict[str, ScoredRun])


def tables(criteria: Sequence[str], measured: Measured) -> dict[str, str]:
    """Return each table by its name; a table without a row is left out."""
    made = {"together": _together(measured), "kinds": _kinds(measured.default), "decisive": _decisive(measured.default)}
    made |= {criterion: _criterion(criterion, measured) for criterion in criteria}
    made["runs"] = _runs(measured)
    made["f1"] = _f1(measured.recorded)
    return {
        name: "\n".join(lines) for name, lines in ((name, list(rows)) for name, rows in made.items()) if len(lines) > 2
    }


def _together(measured: Measured) -> Iterator[str]:
    yield from _head("runs", "default criteria", *_STEP_COLUMNS, "recall on all steps")
    for name in measured.default:
        for title, found in (("as they are", measured.default[name]), ("`retries: count`", measured.retries[name])):
            everywhere = Share(len(found.structural & found.found()), len(found.structural))
            steps = found.failed_steps(among=found.tool_steps)
            yield _row(_title(name), title, *_step_cells(steps, found.recall()), _shown(everywhere))


def _criterion(criterion: str, measured: Measured) -> Iterator[str]:
    yield from _head("runs", "calls judged", *_STEP_COLUMNS, "passed runs flagged")
    for name, found in measured.default.items():
        judged, flagged = found.coverage(criterion), found.flagged_runs(criterion, passed=True)
        if judged.count:
            cells = _step_cells(found.failed_steps(criterion), found.recall(criterion))
            yield _row(_title(name), f"{judged.value:.2f}", *cells, _shown(flagged))
        elif flagged.of:
            yield _row(_title(name), *["-"] * (1 + len(_STEP_COLUMNS)), _shown(flagged))
    if measured.recorded:
        passed, _ = _recorded_runs(measured.recorded, criterion)
        yield _row(RECORDED, *["-"] * (1 + len(_STEP_COLUMNS)), _shown(passed))


def _step_cells(steps: FailedSteps, recall: Share) -> Iterator[str]:
    counts = (steps.marked, steps.repeats, steps.recorded, steps.wrong)
    yield f"{steps.failed}: {' + '.join(map(str, counts))}"
    yield str(steps.precision)
    yield str(steps.precision_with_repeats)
    yield _shown(recall)


def _runs(measured: Measured) -> Iterator[str]:
    yield from _head("runs", "passed runs flagged", "failed runs flagged")
    for name, found in measured.default.items():
        shares = [found.flagged_runs(passed=passed) for passed in (True, False)]
        if any(share.of for share in shares):
            yield _row(_title(name), *map(_shown, shares))
    if measured.recorded:
        yield _row(RECORDED, *map(_shown, _recorded_runs(measured.recorded, None)))


def _recorded_runs(scored: Mapping[str, ScoredRun], criterion: str | None) -> Iterator[Share]:
    for passed in (True, False):
        runs = [one.fails() for one in scored.values() if one.run.has_passed is passed]
        hit = [fails for fails in runs if (fails and criterion is None) or f"default.{criterion}" in fails]
        yield Share(len(hit), len(runs))


def _kinds(comparisons: Comparisons) -> Iterator[str]:
    yield from _head("people marked", "steps", "found", "share")
    known = frozenset[str]().union(*KINDS.values())
    marked = {name for found in comparisons.values() for names in found.marked.values() for name in names}
    for title, categories in (*KINDS.items(), ("anything else", marked - known)):
        share = pooled(found.found_of(categories) for found in comparisons.values())
        if share.of:
            yield _row(title, share.of, share.count, share)


def _decisive(comparisons: Comparisons) -> Iterator[str]:
    yield from _head("runs", "the first failing step is the decisive one")
    for name, found in comparisons.items():
        if (share := found.decisive()).of:
            yield _row(_title(name), _shown(share))


def _f1(recorded: Mapping[str, ScoredRun]) -> Iterator[str]:
    yield from _head(
        "runs", "against the verdict", "failed, with F1 1", "of these with wrong records", "against the records"
    )
    # The verdicts on telecom say nothing of the records.
    for domains in F1_DOMAINS[:3] if recorded else ():
        runs = [one for one in recorded.values() if one.run.domain in domains]
        alike = [one for one in runs if not one.run.has_passed and one.value("f1") == 1]
        wrong = [one for one in alike if one.run.has_wrong_state]
        judged = [one for one in runs if one.run.has_passed or one.run.has_wrong_state]
        areas = (_area(chosen) for chosen in (runs, judged))
        verdict, records = areas
        yield _row(" and ".join(domains), verdict, len(alike), len(wrong), records)


def _area(runs: Sequence[ScoredRun]) -> str:
    values = [(one.run.has_passed, value) for one in runs if (value := one.value("f1")) is not None]
    passed, failed = ([value for is_passed, value in values if is_passed is wanted] for wanted in (True, False))
    return f"{area_under_curve(passed, failed):.3f} of {len(values)}" if passed and failed else "-"


def _title(name: str) -> str:
    return SETS.get(name, name)


def _shown(share: Share) -> str:
    return f"{share.count} of {share.of}: {share}" if share.of else "-"


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---" * len(names) + "|"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def rewrite(page: Path, made: Mapping[str, str]) -> None:
    """Replace each table on the page; raise `ValueError` where the page has no place for one."""
    text = page.read_text(encoding="utf-8")
    for name, table in made.items():
        begin, end = f"<!-- figures: {name} -->", "<!-- end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"no place for the table `{name}` in {page}: {begin} and {end}")
        block = f"{begin}\n\n{table}\n\n{end}"
        text = pattern.sub(lambda _match, block=block: block, text)
    page.write_text(text, encoding="utf-8")
