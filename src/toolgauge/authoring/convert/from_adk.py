"""Google ADK: eval sets (`*.evalset.json`, `*.test.json`), their old form, and `test_config.json` with the criteria."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from toolgauge.authoring.convert.draft import Document, Draft, Notes, call_item, either, parameter_of, unique_case
from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.values import as_list, as_object

_MATCH_TYPES = ("EXACT", "IN_ORDER", "ANY_ORDER")
_NO_CASES = "no eval set is given: add `expected`, `expected_turns` or `reference`, or convert it with its eval sets"


def claims(content: Json) -> bool:
    """Recognize eval sets and configurations by their keys."""
    entries = as_object(content)
    if "eval_cases" in entries or "evalCases" in entries:
        return True
    if isinstance(content, list):
        return bool(content) and all("query" in as_object(turn) for turn in content)
    return isinstance(entries.get("criteria"), dict)


def drafts(documents: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Make one criterion of each configured metric that compares calls, else of ADK's default metric, with all cases."""
    configs = [document for document in documents if "criteria" in document.entries]
    sets = [
        document
        for document in documents
        if isinstance(document.content, list) or either(document.entries, "eval_cases", "evalCases") is not None
    ]
    cases: dict[str, JsonObject] = {}
    for document in sets:
        for number, (name, turns) in enumerate(_cases(document, notes), 1):
            cases[unique_case(cases, name, number)] = {"expected_turns": turns}
    found = list(_configured(configs, notes)) if configs else [_draft("tool_trajectory_avg_score", {}, 1.0)]
    if sets and not cases:
        notes.add(sets[0], "eval_cases", "no case with expected calls is in any of the files")
        return
    longest = max((len(as_list(case["expected_turns"])) for case in cases.values()), default=0)
    for draft in found:
        if not cases:
            notes.lines.append(f"criterion `{draft.name}`: {_NO_CASES}")
        yield replace(draft, scope="conversation" if longest > 1 else None, cases=cases or None)


def _configured(configs: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Yield a draft without cases for each metric that compares calls."""
    compares = False
    for document in configs:
        for name, written in as_object(document.entries["criteria"]).items():
            path = f"criteria.{name}"
            if name not in _METRICS:
                notes.add(document, path, "no counterpart")
                continue
            compares = True
            # A number alone is the threshold.
            entries: JsonObject = written if isinstance(written, dict) else {"threshold": written}
            threshold = entries.get("threshold", 1.0)
            if isinstance(threshold, bool) or not isinstance(threshold, int | float):
                notes.add(document, f"{path}.threshold", "must be a number from 0 to 1; the metric is left out")
                continue
            for key in entries:
                if key != "threshold" and parameter_of(_METRICS[name][0], key) is None:
                    notes.add(document, f"{path}.{key}", "is no parameter here")
            yield _draft(name, entries, threshold)
    if configs and not compares:
        names = " or ".join(f"`{name}`" for name in _METRICS)
        notes.add(configs[0], "criteria", f"a metric that compares calls, {names}, is not among them")


def _draft(name: str, entries: JsonObject, threshold: float) -> Draft:
    evaluator, defaults = _METRICS[name]
    parameters: JsonObject = {"threshold": threshold} if evaluator.startswith("adk.") else {}
    for key, value in entries.items():
        if value is not None and key != "threshold" and (parameter := parameter_of(evaluator, key)) is not None:
            parameters[parameter] = _spelled(parameter, value)
    return Draft(
        name="adk-" + evaluator.removeprefix("adk.").replace("_", "-"),
        evaluator=evaluator,
        parameters={**parameters, **{key: value for key, value in defaults.items() if key not in parameters}},
        pass_at=threshold,
    )


def _spelled(parameter: str, value: Json) -> Json:
    """Return a value as our evaluators take it: ADK takes numbers of match types, and choices in any case, with spaces and hyphens."""
    match parameter, value:
        case "match_type", int() if not isinstance(value, bool) and 0 <= value < len(_MATCH_TYPES):
            return _MATCH_TYPES[value]
        case "match_mode" | "strategy", str():
            return re.sub(r"[\s-]+", "_", value.strip()).lower()
        case "strategies", dict():
            return {key: _spelled("strategy", each) for key, each in value.items()}
        case _:
            return value


# Our evaluators of ADK's metrics, with parameters whose defaults differ here. The proposal `tool_parameter_match`
# (google/adk-python issue 5643) compares in order by default; ADK itself implements only its threshold.
_METRICS: Mapping[str, tuple[str, JsonObject]] = {
    "tool_trajectory_avg_score": ("adk.tool_trajectory", {}),
    "tool_parameter_match": ("tool_parameter_match", {"ordered": True}),
}


def _cases(document: Document, notes: Notes) -> Iterator[tuple[Json, list[Json]]]:
    if isinstance(document.content, list):
        turns = [as_list(as_object(turn).get("expected_tool_use")) for turn in document.content]
        calls = [[as_object(use) for use in uses] for uses in turns]
        yield None, [[call_item(use.get("tool_name"), use.get("tool_input") or {}) for use in uses] for uses in calls]
        return
    for number, written in enumerate(as_list(either(document.entries, "eval_cases", "evalCases"))):
        case = as_object(written)
        conversation = as_list(case.get("conversation"))
        if not conversation:
            notes.add(document, f"eval_cases[{number}]", "a case without a conversation has nothing to compare with")
            continue
        for place, turn in enumerate(conversation):
            if either(as_object(turn), "final_response", "finalResponse") is not None:
                path = f"eval_cases[{number}].conversation[{place}].final_response"
                notes.add(document, path, "the expected answer is not compared")
        yield either(case, "eval_id", "evalId"), [_turn(as_object(turn)) for turn in conversation]


def _turn(invocation: JsonObject) -> list[Json]:
    data = as_object(either(invocation, "intermediate_data", "intermediateData"))
    uses = as_list(either(data, "tool_uses", "toolUses"))
    for event in as_list(either(data, "invocation_events", "invocationEvents")):
        parts = as_list(as_object(as_object(event).get("content")).get("parts"))
        uses = uses + [either(as_object(part), "function_call", "functionCall") for part in parts]
    # ADK itself does not look at ids, which differ from run to run.
    return [call_item(as_object(use).get("name"), as_object(use).get("args") or {}) for use in uses if use is not None]
