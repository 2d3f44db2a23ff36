"""Checks an evaluator that asks a judge against its contract, with made-up answers that fit the form of each question."""

from collections.abc import Sequence
from itertools import islice
from typing import cast

from jsonschema_rs import Draft202012Validator

from toolgauge.judge.inquiry import Answer, ScriptedEvaluator
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import Trajectory
from toolgauge.testing.evaluators import check_evaluator
from toolgauge.testing.samples import SECRET

_DEEPEST = 16


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
