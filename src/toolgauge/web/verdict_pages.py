"""The pages of verdicts, and of differences between bad runs and good ones, with the criteria that people adopted from there."""

import logging
from collections.abc import Mapping, Sequence
from typing import get_args

from toolgauge.authoring.adopted import Step, adopted, take_step
from toolgauge.authoring.separation import separate
from toolgauge.config.criteria import LEARNED_FILE
from toolgauge.model.errors import ConfigError
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.report.trajectory_rows import trajectory_id
from toolgauge.web.pages import Compared, Form, FormError, PageContent, PageRequest

_LOG = logging.getLogger("toolgauge")
_ROWS = 200
# With fewer good runs, at most so many that nobody marked are taken for good ones.
_LEAST_GOOD, _MOST_OTHERS = 3, 40
REASONS = (
    "wrong tool",
    "wrong arguments",
    "skipped a step",
    "did it twice",
    "told something else than it did",
    "should have asked first",
    "did not do what was asked",
    "too many calls",
)
_STEPS: Mapping[str, Step] = {step: step for step in get_args(Step)}
_DONE: Mapping[Step, str] = {"shadow": "is tried in the shadow", "live": "is live", "drop": "is dropped"}


def verdicts(shown: PageContent, _request: PageRequest) -> str:
    """Show the newest verdicts."""
    newest, store = shown.verdicts.newest(), shown.store
    good = sum(one.is_good for one in newest)
    return shown.page(
        "verdicts.html",
        section="verdicts",
        title="Verdicts",
        rows=[(one, store.find(one.id) is not None) for one in newest[:_ROWS]],
        more=max(0, len(newest) - _ROWS),
        good=good,
        bad=len(newest) - good,
        is_kept=shown.state is not None,
    )


def separation(shown: PageContent, _request: PageRequest) -> str:
    """Show differences between bad runs and good ones, and the criteria that were adopted."""
    found, state = _compared(shown), shown.state
    steps: Mapping[str, Step] = {}
    problem = ""
    try:
        steps = {} if state is None else adopted(state)
    except ConfigError as error:
        problem = error.message
    runs = [(one.is_good, scorecard) for one, scorecard in shown.verdicts.runs()]
    return shown.page(
        "separation.html",
        section="verdicts",
        title="What separates bad runs from good ones",
        separation=found.separation,
        are_marked=found.are_marked,
        least_good=_LEAST_GOOD,
        pages=found.pages,
        adopted=steps,
        agreement={name: _agreement(name, runs) for name in steps},
        problem=problem,
        file=None if state is None else state / LEARNED_FILE,
    )


def take(shown: PageContent, form: Form) -> str:
    """Take a step with a criterion as the page of differences asks for it; return the page to show.

    The caller reloads. Raises `FormError`.
    """
    name, state = form.get("name", ""), shown.state
    step = _STEPS.get(form.get("step", ""))
    if step is None:
        raise FormError("`step` is `shadow`, `live` or `drop`")
    if state is None:
        raise FormError("set `state.directory`: an adopted criterion is kept there")
    # By the page that was shown: unmarked runs have come since.
    found = shown.compared or _compared(shown)
    text = next((one.text for one in found.separation.separators if one.name == name), "")
    try:
        if not text and name not in adopted(state):
            raise FormError(f"no criterion `{name[:80]}` separates the runs that are marked now", 404)
        path = take_step(state, name, step, text)
    except ConfigError as error:
        raise FormError(error.message, 500) from error
    _LOG.info("criterion `%s` %s: `%s`", name, _DONE[step], path)
    return "/separation"


def _compared(shown: PageContent) -> Compared:
    """Compare the marked runs, once after each change."""
    changes, before = shown.verdicts.changes, shown.compared
    if before is not None and before.changes == changes and before.are_marked:
        return before
    marked = shown.verdicts.runs()
    sides: dict[bool, list[Scorecard]] = {True: [], False: []}
    for verdict, scorecard in marked:
        sides[verdict.is_good].append(scorecard)
    services = {one.trajectory.service for one in sides[False]}
    failing = [found for one in sides[False] if (found := _failing(one))]
    known = {verdict.id for verdict in shown.verdicts.newest()}
    unmarked = (one for one in shown.store.newest() if one.id not in known and one.trajectory.service in services)
    # One that fails everything that a bad run fails is probably bad as well.
    others = [one for one in unmarked if not any(each <= _failing(one) for each in failing)][:_MOST_OTHERS]
    good, are_marked = sides[True], len(sides[True]) >= _LEAST_GOOD
    if not are_marked:
        good, others = [*good, *others], []
    compared = [*sides[False], *good]
    shown.compared = found = Compared(
        changes=changes,
        separation=separate(sides[False], good, others),
        are_marked=are_marked,
        pages={one.trajectory.trace_id: trajectory_id(one.trajectory) for one in compared},
    )
    return found


def _failing(scorecard: Scorecard) -> frozenset[str]:
    failed = (one for one in scorecard.results if one.enforce == "live" and outcome_word(one.outcome) == "fail")
    return frozenset(one.criterion for one in failed)


def _agreement(criterion: str, runs: Sequence[tuple[bool, Scorecard]]) -> tuple[int, int, int, int]:
    """Count the bad runs that a criterion failed, the bad ones that it judged, and the same of good ones."""
    counts = [0, 0, 0, 0]
    for is_good, scorecard in runs:
        words = {outcome_word(one.outcome) for one in scorecard.results if one.criterion == criterion}
        if words & {"pass", "fail"}:
            counts[2 * is_good] += "fail" in words
            counts[2 * is_good + 1] += 1
    return counts[0], counts[1], counts[2], counts[3]
