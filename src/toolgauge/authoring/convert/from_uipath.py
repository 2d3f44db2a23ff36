"""UiPath: evaluators (`evaluatorTypeId`, `evaluatorConfig`) and evaluation sets (`evaluations`) that name them."""

from collections.abc import Iterator, Sequence

from toolgauge.authoring.convert.draft import (
    Document,
    Draft,
    Notes,
    call_item,
    criterion_name,
    either,
    parameter_of,
    unique_case,
)
from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.values import as_list, as_object

# By kind of evaluator, the key of its expectation in both spellings.
_EXPECTED_KEYS = {
    "tool-call-args": ("toolCalls", "tool_calls"),
    "tool-call-output": ("toolOutputs", "tool_outputs"),
    "tool-call-order": ("toolCallsOrder", "tool_calls_order"),
    "tool-call-count": ("toolCallsCount", "tool_calls_count"),
    "json-similarity": ("expectedOutput", "expected_output"),
}
_EVALUATORS = {kind: f"uipath.{kind.replace('-', '_')}" for kind in _EXPECTED_KEYS}
# The keys of a configuration that are not parameters here.
_NOT_PARAMETERS = ("name", "description", "defaultEvaluationCriteria", "default_evaluation_criteria")


def claims(content: Json) -> bool:
    """Recognize evaluators and evaluation sets by their keys."""
    entries = as_object(content)
    return "evaluatorTypeId" in entries or ("evaluations" in entries and "evaluatorRefs" in entries)


def drafts(documents: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Make a criterion of each evaluator, with the cases that evaluation sets hold for it."""
    sets = [document for document in documents if "evaluations" in document.entries]
    evaluators = [document for document in documents if "evaluatorTypeId" in document.entries]
    known = {_id(document) for document in evaluators}
    for document in sets:
        for reference in as_list(document.entries["evaluatorRefs"]):
            if not isinstance(reference, str) or reference not in known:
                notes.add(document, "evaluatorRefs", f"evaluator `{reference}` is in none of the files")
    for document in evaluators:
        yield from _drafts_of(document, sets, notes)


def _drafts_of(document: Document, sets: list[Document], notes: Notes) -> Iterator[Draft]:
    written = document.entries["evaluatorTypeId"]
    kind = written.removeprefix("uipath-") if isinstance(written, str) else ""
    if kind not in _EVALUATORS:
        notes.add(document, "evaluatorTypeId", f"no counterpart of `{written}`")
        return
    config = as_object(document.entries.get("evaluatorConfig"))
    parameters: JsonObject = {}
    for key in [key for key in config if key not in _NOT_PARAMETERS]:
        if (parameter := parameter_of(_EVALUATORS[kind], key)) is not None:
            parameters[parameter] = config[key]
        else:
            notes.add(document, f"evaluatorConfig.{key}", "is no parameter here")
    default = either(config, "defaultEvaluationCriteria", "default_evaluation_criteria")
    cases = _cases(document, kind, default, sets, notes)
    if not cases:
        notes.add(document, "evaluatorConfig.defaultEvaluationCriteria", "nothing to compare with, here or in a set")
        return
    name = criterion_name(_id(document) or kind)
    if kind != "tool-call-count":
        yield Draft(name=name, evaluator=_EVALUATORS[kind], parameters=parameters, cases=cases)
        return
    for case, counts in cases.items():
        yield Draft(
            name=name if len(cases) == 1 else criterion_name(f"{name}-{case}"),
            evaluator=_EVALUATORS[kind],
            parameters={**parameters, "default_evaluation_criteria": counts},
            only_case=case if len(cases) > 1 else None,
        )


def _id(document: Document) -> str:
    found = either(document.entries, "id", "name")
    return found if isinstance(found, str) else ""


def _cases(document: Document, kind: str, default: Json, sets: list[Document], notes: Notes) -> dict[str, JsonObject]:
    cases: dict[str, JsonObject] = {}
    for place in sets:
        for number, evaluation in enumerate(as_list(place.entries["evaluations"]), 1):
            criteria = as_object(as_object(evaluation).get("evaluationCriterias"))
            if _id(document) not in criteria:
                continue
            found = _expectation(kind, criteria[_id(document)] or default)
            path = f"evaluations[{number - 1}].evaluationCriterias.{_id(document)}"
            if found is None:
                notes.add(place, path, "is not what this evaluator compares with")
                continue
            name = either(as_object(evaluation), "id", "name")
            cases[unique_case(cases, name, number)] = found
    inline = None if cases else _expectation(kind, default)
    return cases if inline is None else {"default": inline}


def _expectation(kind: str, criteria: Json) -> JsonObject | None:
    found = either(as_object(criteria), *_EXPECTED_KEYS[kind])
    match kind, found:
        case "json-similarity", _:
            return None if found is None else {"expected_output": found}
        case "tool-call-count", dict():
            return {"tool_calls_count": found}
        case "tool-call-args" | "tool-call-output", list():
            expected: list[Json] = []
            for call in map(as_object, found):
                item = call_item(call.get("name"), call.get("args"), call.get("id"))
                expected.append({**item, "output": call.get("output")} if kind == "tool-call-output" else item)
            return {"expected": expected}
        case "tool-call-order", list():
            return {"expected": found}
        case _:
            return None
