"""Google ADK: eval sets (`*.evalset.json`, `*.test.json`), their old form, and `test_config.json` with the criteria."""

from collections.abc import Iterator, Sequence

from toolgauge.model.json import Json, JsonObject
from toolgauge.offline.convert.draft import Document, Draft, Notes, as_list, as_object, call_item, either, unique_case

_TRAJECTORY = "tool_trajectory_avg_score"
_MATCH_TYPES = ("EXACT", "IN_ORDER", "ANY_ORDER")


def claims(content: Json) -> bool:
    """Recognize eval sets and configurations by their keys."""
    entries = as_object(content)
    if "eval_cases" in entries or "evalCases" in entries:
        return True
    if isinstance(content, list):
        return bool(content) and all("query" in as_object(turn) for turn in content)
    return isinstance(entries.get("criteria"), dict)


def drafts(documents: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Make one criterion of all eval sets: their trajectories by the configured metric, else by ADK's default."""
    cases: dict[str, JsonObject] = {}
    for document in documents:
        for number, (name, turns) in enumerate(_cases(document, notes), 1):
            cases[unique_case(cases, name, number)] = {"expected_turns": turns}
    configs = [document for document in documents if "criteria" in document.entries]
    parameters, threshold = _metric(configs, notes)
    if parameters is None:
        notes.add(configs[0], "criteria", f"`{_TRAJECTORY}`, which compares calls, is not among them")
        return
    if not cases:
        notes.add(documents[0], "eval_cases", "no case with expected calls is in any of the files")
        return
    lengths = [len(as_list(case["expected_turns"])) for case in cases.values()]
    yield Draft(
        name="adk-tool-trajectory",
        evaluator="adk.tool_trajectory",
        parameters=parameters,
        pass_at=threshold,
        scope="conversation" if max(lengths) > 1 else None,
        cases=cases,
    )


def _metric(configs: Sequence[Document], notes: Notes) -> tuple[JsonObject | None, float]:
    """Return the parameters of the trajectory metric and its threshold; `None` where it is not asked for."""
    found: Json = None if configs else 1.0
    for document in configs:
        for name, written in as_object(document.entries["criteria"]).items():
            if name == _TRAJECTORY:
                found = written
            else:
                notes.add(document, f"criteria.{name}", "no counterpart")
    entries = as_object(found)
    threshold = entries.get("threshold", 1.0) if entries else found
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        return None, 1.0
    parameters: JsonObject = {"threshold": threshold}
    match = either(entries, "match_type", "matchType")
    if isinstance(match, int) and 0 <= match < len(_MATCH_TYPES):
        match = _MATCH_TYPES[match]
    if match is not None:
        parameters["match_type"] = match
    ignores = either(entries, "ignore_args", "ignoreArgs")
    if ignores is not None:
        parameters["ignore_args"] = ignores
    return parameters, threshold


def _cases(document: Document, notes: Notes) -> Iterator[tuple[Json, list[Json]]]:
    if isinstance(document.content, list):
        yield None, [_old_turn(as_object(turn)) for turn in document.content]
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


def _old_turn(turn: JsonObject) -> list[Json]:
    uses = (as_object(use) for use in as_list(turn.get("expected_tool_use")))
    return [call_item(use.get("tool_name"), use.get("tool_input") or {}) for use in uses]
