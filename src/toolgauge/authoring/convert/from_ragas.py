"""Ragas: multi-turn samples with `reference_tool_calls`, alone, in a list, or under `samples`."""

from collections.abc import Iterator, Sequence

from toolgauge.authoring.convert.draft import Document, Draft, Notes, as_list, as_object, call_item, either, unique_case
from toolgauge.model.json import Json, JsonObject

_KNOWN = ("user_input", "reference_tool_calls", "id", "name", "case")


def claims(content: Json) -> bool:
    """Recognize samples by their key."""
    return any("reference_tool_calls" in sample for _, sample in _samples(content))


def drafts(documents: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Make both metrics of Ragas that compare calls."""
    cases: dict[str, JsonObject] = {}
    for document in documents:
        for place, sample in _samples(document.content):
            for key in sample:
                if key not in _KNOWN and sample[key] is not None:
                    notes.add(document, f"{place}{key}", "is not compared")
            calls = sample.get("reference_tool_calls")
            if not isinstance(calls, list):
                notes.add(document, f"{place}reference_tool_calls", "no list of calls: the sample is left out")
                continue
            items = [call_item(as_object(call).get("name"), as_object(call).get("args")) for call in calls]
            name = either(sample, "id", "name", "case")
            cases[unique_case(cases, name, len(cases) + 1)] = {"expected": list[Json](items)}
    if cases:
        yield Draft(name="ragas-tool-call-accuracy", evaluator="ragas.tool_call_accuracy", cases=cases)
        yield Draft(name="ragas-tool-call-f1", evaluator="ragas.tool_call_f1", cases=cases)


def _samples(content: Json) -> Iterator[tuple[str, JsonObject]]:
    entries = as_object(content)
    if isinstance(content, dict) and "samples" not in entries:
        yield "", entries
        return
    prefix = "samples" if entries else ""
    for number, sample in enumerate(as_list(entries.get("samples", content))):
        yield f"{prefix}[{number}].", as_object(sample)
