"""Samples with reference calls: agentevals (`reference_outputs`, chat messages) and Ragas (`reference_tool_calls`)."""

import json
from collections.abc import Iterator, Sequence

from toolgauge.authoring.convert.draft import Document, Draft, Notes, call_item, either, unique_case
from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.values import as_list, as_object

_PARAMETERS = ("trajectory_match_mode", "tool_args_match_mode", "tool_args_match_overrides")
_KNOWN_AGENTEVALS = (*_PARAMETERS, "reference_outputs", "outputs", "inputs", "id", "name", "config", "examples")
_KNOWN_RAGAS = ("user_input", "reference_tool_calls", "id", "name", "case")


def claims(reference: str, key: str, content: Json) -> bool:
    """Recognize samples, a single one, a list or those under `key`, by the key of their reference."""
    return any(reference in sample for _, sample in _samples(content, key))


def ragas_drafts(documents: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Make both metrics of Ragas that compare calls."""
    cases: dict[str, JsonObject] = {}
    for document in documents:
        for place, sample in _samples(document.content, "samples"):
            for key in sample:
                if key not in _KNOWN_RAGAS and sample[key] is not None:
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


def agentevals_drafts(documents: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Make one criterion for each set of parameters that occurs."""
    found: dict[str, tuple[JsonObject, dict[str, JsonObject]]] = {}
    for document in documents:
        shared = _parameters(document.entries)
        for place, example in _samples(document.content, "examples"):
            for key in example:
                if key not in _KNOWN_AGENTEVALS:
                    notes.add(document, f"{place}{key}", "is not compared")
            parameters = {**shared, **_parameters(example)}
            _, cases = found.setdefault(json.dumps(parameters, sort_keys=True), (parameters, {}))
            written = example.get("reference_outputs")
            messages = as_object(written).get("messages", written)
            if not isinstance(messages, list):
                notes.add(document, f"{place}reference_outputs", "no list of messages: the example is left out")
                continue
            turns: list[Json] = []
            open_turn: list[Json] = []
            for number, message in enumerate(map(as_object, messages)):
                blocks = [as_object(block) for block in as_list(message.get("content"))]
                if message.get("role", message.get("type")) in ("user", "human"):
                    # Anthropic's answers to calls do not begin a turn.
                    if [block.get("type") for block in blocks] != ["tool_result"] * len(blocks) or not blocks:
                        open_turn = []
                        turns.append(open_turn)
                    continue
                calls = as_list(message.get("tool_calls"))
                # Of LangChain's messages, the blocks repeat the calls.
                calls = calls or [block for block in blocks if block.get("type") in ("tool_use", "function_call")]
                path = f"{place}reference_outputs[{number}].tool_calls"
                group: list[Json] = [_call(as_object(call), document, path, notes) for call in calls]
                if not turns:
                    turns.append(open_turn)
                open_turn += [group] if len(group) > 1 else group
            if len(turns) > 1:
                expectation: JsonObject = {"expected_turns": turns}
            else:
                expectation = {"expected": [item for turn in turns for item in as_list(turn)]}
            cases[unique_case(cases, either(example, "id", "name"), len(cases) + 1)] = expectation
    for number, (parameters, cases) in enumerate(found.values(), 1):
        if cases:
            name = "agentevals-trajectory-match" + (f"-{number}" if len(found) > 1 else "")
            yield Draft(name=name, evaluator="agentevals.trajectory_match", parameters=parameters, cases=cases)


def _samples(content: Json, key: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield each sample with the beginning of its place: a single one, a list, or a list under `key`."""
    entries = as_object(content)
    if isinstance(content, dict) and key not in entries:
        yield "", entries
        return
    for number, sample in enumerate(as_list(entries.get(key, content))):
        yield f"{key if entries else ''}[{number}].", as_object(sample)


def _parameters(entries: JsonObject) -> JsonObject:
    given = {**as_object(entries.get("config")), **entries}
    return {key: given[key] for key in _PARAMETERS if given.get(key) is not None}


def _call(written: JsonObject, document: Document, path: str, notes: Notes) -> JsonObject:
    call = as_object(written.get("function")) or written
    arguments = either(call, "args", "arguments", "input")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except ValueError:
            notes.add(document, path, f"the arguments of `{call.get('name')}` are unparsable and not compared")
    return call_item(call.get("name"), arguments)
