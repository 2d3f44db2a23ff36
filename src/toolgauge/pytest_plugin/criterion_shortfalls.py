"""What keeps criteria from having passed: a failure, something that could not be evaluated, or nothing to judge at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgauge.api.evaluation import CriterionResult, Evaluation
from toolgauge.score.criterion import Criterion

Shortcoming: TypeAlias = Literal["failed", "ended in an error", "could not be evaluated", "matched nothing"]
# Another turn may have had nothing to judge; anything else that was not evaluated was there, and not seen.
_NOTHING_TO_JUDGE = ("no_calls", "nothing_expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A criterion that has not passed. `results` are those that show it, none where it matched nothing."""

    criterion: Criterion
    shortcoming: Shortcoming
    results: tuple[CriterionResult, ...]


def shortfalls_of(criteria: Sequence[Criterion], evaluation: Evaluation) -> tuple[Shortfall, ...]:
    """Look at criteria that have to pass, each for itself."""
    found = (_shortfall(one, evaluation.of(one.name)) for one in criteria)
    return tuple(one for one in found if one is not None)


def shortfalls_of_all(criteria: Sequence[Criterion], evaluation: Evaluation) -> tuple[Shortfall, ...]:
    """Look at all criteria that decide: those of other cases match nothing, and default ones may have nothing to judge.

    Where nothing of what people wrote was scored, that is a shortfall of each of them; without any, of the default ones.
    """
    # A default criterion that every score passes decides nothing.
    live = [one for one in criteria if one.enforce == "live" and (one.pass_at > 0 or not one.is_default)]
    written = [one for one in live if not one.is_default]
    found = tuple(_deciding(live, evaluation))
    if found or any(result.passed for one in written or live for result in evaluation.of(one.name)):
        return found
    return shortfalls_of(written or live, evaluation)


def _deciding(live: Sequence[Criterion], evaluation: Evaluation) -> Iterator[Shortfall]:
    for criterion in live:
        results = evaluation.of(criterion.name)
        shortfall = _shortfall(criterion, results)
        if shortfall is None or not results:
            continue
        unseen = any(_is_unseen(result) for result in results)
        if shortfall.shortcoming != "could not be evaluated" or (unseen and not criterion.is_default):
            yield shortfall


def _shortfall(criterion: Criterion, results: tuple[CriterionResult, ...]) -> Shortfall | None:
    if not results:
        return Shortfall(criterion=criterion, shortcoming="matched nothing", results=())
    failed = tuple(result for result in results if result.passed is False)
    if failed:
        is_error = all(result.outcome == "error" for result in failed)
        return Shortfall(criterion=criterion, shortcoming="ended in an error" if is_error else "failed", results=failed)
    has_passed = any(result.passed for result in results)
    unseen = tuple(result for result in results if _is_unseen(result) or not has_passed)
    if unseen:
        return Shortfall(criterion=criterion, shortcoming="could not be evaluated", results=unseen)
    return None


def _is_unseen(result: CriterionResult) -> bool:
    return result.passed is None and result.reason not in _NOTHING_TO_JUDGE
