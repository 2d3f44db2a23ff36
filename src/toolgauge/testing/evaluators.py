"""Checks an evaluator against its contract: on trajectories from empty to full, with and without a reference.

An evaluator that asks a judge gets made-up answers that fit the form of each question.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from itertools import islice
from typing import cast, get_args

from jsonschema_rs import Draft202012Validator

from toolgauge.judge.inquiry import Answer, ScriptedEvaluator
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Reason, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.testing.samples import SECRET, sample_expectations, sample_trajectories

# Older plug-ins yield `None` between outcomes, which the scorer ignores; more of them have no end.
_MAX_IGNORED = 20_000
_DEEPEST = 16


def check_evaluator(
    evaluator: Evaluator, trajectories: Sequence[Trajectory] = (), expectations: Sequence[Expected | None] = ()
) -> None:
    """Raise `AssertionError` unless the evaluator keeps its contract, on the samples and on further trajectories."""
    name = type(evaluator).__name__
    assert isinstance(evaluator.version, str), f"`version` of {name} is no text: {evaluator.version!r}"
    assert evaluator.version, f"`version` of {name} is empty: nobody could tell when its scores change meaning"
    assert evaluator.level in get_args(Level), f"`level` of {name} is `{evaluator.level}`, neither call nor trajectory"
    references = (*sample_expectations(), *expectations)
    for trajectory in (*sample_trajectories(), *trajectories):
        for expected in references:
            _check_once(evaluator, name, trajectory, expected)


def _check_once(evaluator: Evaluator, name: str, trajectory: Trajectory, expected: Expected | None) -> None:
    case = f"{name} on {len(trajectory.calls)} calls {'without' if expected is None else 'with'} a reference"
    before = deepcopy((trajectory, expected, evaluator))
    outcomes = _outcomes(evaluator, case, trajectory, expected)
    assert (trajectory, expected) == before[:2], f"{case} changes the trajectory or the reference"
    is_same = _state(evaluator) == _state(before[2])
    assert is_same, f"{case} changes itself: the next trajectory would be scored differently"
    assert outcomes, f"{case} yields no outcome: it must say `NotEvaluated` when there is nothing to judge"
    judged = [None if call is None else call.order for call, _ in outcomes]
    assert len(judged) == len(set(judged)), f"{case} judges the same target twice: {judged}"
    for call, outcome in outcomes:
        if evaluator.level == "trajectory":
            assert call is None, f"{case} judges a call although its level is trajectory"
        elif call is None:
            assert not isinstance(outcome, Scored), f"{case} scores the trajectory although its level is call"
        else:
            assert call in trajectory.calls, f"{case} judges a call that is not in the trajectory"
        assert isinstance(outcome, get_args(Outcome)), f"{case} yields {outcome!r}, which is no outcome"
        match outcome:
            case Scored():
                value = outcome.value
                assert type(value) in (int, float), f"{case} scores {value!r}, which is no number"
                assert math.isfinite(value), f"{case} scores {value!r}: say `NotEvaluated` when there is no number"
                assert 0 <= value <= 1, f"{case} scores {value!r}, which is not within 0 and 1"
                assert outcome.explanation.strip(), f"{case} scores {value!r} without an explanation"
                assert SECRET not in outcome.explanation, f"{case} repeats a recorded value in its explanation"
                assert outcome.passed is None, f"{case} decides itself what passes: that is the criterion's `pass_at`"
                assert isinstance(outcome.is_exempt, bool), f"{case} gives {outcome.is_exempt!r} as `is_exempt`"
                for part, figure in outcome.parts.items():
                    assert part, f"{case} names a part of its score with an empty text"
                    assert math.isfinite(figure), f"{case} gives {figure!r} as `{part}`, which is no number"
                    assert figure >= 0, f"{case} gives {figure!r} as `{part}`, which is below 0"
            case NotEvaluated(reason=reason, explanation=explanation):
                assert reason in get_args(Reason), f"{case} gives the reason `{reason}`, which is not in the list"
                assert SECRET not in explanation, f"{case} repeats a recorded value in its explanation"
            case Errored(error_type=error_type):
                assert error_type, f"{case} yields an error without a type"
    # Last: NaN differs from itself.
    assert _outcomes(evaluator, case, trajectory, expected) == outcomes, f"{case} says something else the second time"


def _state(evaluator: Evaluator) -> object:
    """Return the comparable state of an evaluator: a plain object is equal to itself alone."""
    return vars(evaluator) if type(evaluator).__eq__ is object.__eq__ and hasattr(evaluator, "__dict__") else evaluator


def _outcomes(
    evaluator: Evaluator, case: str, trajectory: Trajectory, expected: Expected | None
) -> list[tuple[ToolCall | None, Outcome]]:
    outcomes: list[tuple[ToolCall | None, Outcome]] = []
    ignored = 0
    try:
        for evaluation in evaluator.evaluate(trajectory, expected):
            if evaluation is not None:
                outcomes.append(evaluation)
                continue
            ignored += 1
            if ignored > _MAX_IGNORED:
                break
    except Exception as error:
        raise AssertionError(f"{case} raises {error!r}: it must say `NotEvaluated` instead") from error
    assert ignored <= _MAX_IGNORED, f"{case} yields `None` more than {_MAX_IGNORED} times: it would be cut off"
    return outcomes


def check_judge_evaluator(
    evaluator: JudgeEvaluator, trajectories: Sequence[Trajectory] = (), expectations: Sequence[Expected | None] = ()
) -> None:
    """Raise `AssertionError` unless the evaluator keeps its contract, whichever of the possible answers it gets."""
    name = type(evaluator).__name__
    # Forms known to be valid: checking one takes longer than all the rest.
    checked: set[str] = set()

    def answering(kind: int) -> Answer:
        def answer(question: Question) -> JsonObject:
            assert question.instructions.strip(), f"{name} asks without instructions"
            assert question.prompt.strip(), f"{name} asks about nothing"
            assert question.form_name, f"{name} does not name its form"
            form = repr(question.form)
            if form not in checked:
                Draft202012Validator(question.form, offline=True)
                checked.add(form)
            fixed = (question.instructions, question.form_name, form, *question.notes)
            has_secret = any(SECRET in text for text in fixed)
            assert not has_secret, f"{name} lets recorded text into its instructions or its form"
            verdict = _fitting(question.form, kind, _DEEPEST)
            assert isinstance(verdict, dict), f"{name} asks for a verdict that is no object"
            return verdict

        return answer

    for kind in range(3):
        # It copies version and level from the evaluator, so they are not class variables.
        check_evaluator(cast("Evaluator", ScriptedEvaluator(evaluator, answering(kind))), trajectories, expectations)


def _fitting(form: JsonObject, kind: int, depth: int) -> Json:
    """Make a value of the form; `kind` chooses among several."""
    choices = form.get("enum")
    if isinstance(choices, list):
        return choices[kind % len(choices)]
    match form.get("type"):
        case "object" if depth:
            properties = form.get("properties")
            fields = properties.items() if isinstance(properties, dict) else ()
            return {name: _fitting(one, kind, depth - 1) for name, one in fields if isinstance(one, dict)}
        case "array" if depth:
            items = form.get("items")
            return list(islice(iter([_fitting(items, kind, depth - 1)] if isinstance(items, dict) else []), kind))
        case "number" | "integer":
            return (0, 1, 1)[kind] if form.get("type") == "integer" else (0.0, 0.5, 1.0)[kind]
        case "boolean":
            return kind > 0
        case "null":
            return None
        case _:
            return f"because of {SECRET}"
