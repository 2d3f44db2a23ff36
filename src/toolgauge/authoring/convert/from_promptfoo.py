"""promptfoo: the assertions of a configuration that look at tool calls (`trajectory:*`, `tool-call-f1`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolgauge.authoring.convert.draft import Document, Draft, Notes, call_item, criterion_name, either
from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.values import as_list, as_object


@dataclass(frozen=True, slots=True)
class _Carried:
    """The criterion of an assertion; `but` names the part that is lost. A text in its place is the reason to leave it behind."""

    evaluator: str
    parameters: JsonObject
    expected: list[Json] | None = None
    but: str | None = None


def claims(content: Json) -> bool:
    """Recognize a configuration by its tests."""
    entries = as_object(content)
    return "tests" in entries or "defaultTest" in entries


def drafts(documents: Sequence[Document], notes: Notes) -> Iterator[Draft]:
    """Make a criterion of each assertion; where there are several tests, an assertion is for the case of its test alone."""
    for document in documents:
        tests = document.entries.get("tests")
        if tests is not None and not isinstance(tests, list):
            notes.add(document, "tests", "tests outside of this file are not read")
        default = as_object(document.entries.get("defaultTest"))
        found = list(_of_test(default, "defaultTest", None, document, notes))
        listed = as_list(tests)
        for number, test in enumerate(listed):
            if not isinstance(test, dict):
                notes.add(document, f"tests[{number}]", "tests outside of this file are not read")
                continue
            description = test.get("description")
            case = description if isinstance(description, str) else f"test-{number + 1}"
            found += _of_test(test, f"tests[{number}]", case if len(listed) > 1 else None, document, notes)
        yield from found
        if found:
            notes.add(document, "tests", "the case of letters in names of tools matters here, as it does not there")


def _of_test(test: JsonObject, path: str, case: str | None, document: Document, notes: Notes) -> Iterator[Draft]:
    for number, written in enumerate(as_list(test.get("assert"))):
        place = f"{path}.assert[{number}]"
        assertion = as_object(written)
        kind, value = assertion.get("type"), assertion.get("value")
        if not isinstance(kind, str):
            carried = "an assertion without a `type`"
        else:
            carry = _KINDS.get(kind)
            if carry is None:
                carried = f"no counterpart of `{kind}`"
            elif "{{" in str(value) or (isinstance(value, str) and value.startswith("file://")):
                carried = "variables and files in `value` are not resolved"
            else:
                carried = carry(value)
        if isinstance(carried, str):
            notes.add(document, place, carried)
            continue
        if carried.but is not None:
            notes.add(document, place, carried.but)
        threshold = assertion.get("threshold")
        kind = str(assertion["type"]).removeprefix("trajectory:").replace("not-trajectory:", "not-")
        pass_at = float(threshold) if isinstance(threshold, int | float) and not isinstance(threshold, bool) else None
        yield Draft(
            name=criterion_name(f"{kind}-{case or path}-{number + 1}"),
            evaluator=carried.evaluator,
            parameters=carried.parameters,
            pass_at=pass_at,
            only_case=case,
            cases=None if carried.expected is None else {"": {"expected": carried.expected}},
        )


def _tool_used(value: Json) -> _Carried | str:
    if isinstance(value, dict):
        name = either(value, "pattern", "name")
        least, most = value.get("min", 1), value.get("max")
        if not isinstance(name, str) or "type" in value:
            return "`value` must name a tool"
        count: JsonObject = {"min": least} if most is None else {"min": least, "max": most}
        return _Carried("tool_call_count", {"counts": {name: count}, "strict": True})
    names = [value] if isinstance(value, str) else as_list(value)
    if not names or not all(isinstance(name, str) for name in names):
        return "`value` must name tools"
    return _Carried("tool_call_count", {"counts": {str(name): ">= 1" for name in names}, "strict": True})


def _tool_not_used(value: Json) -> _Carried | str:
    carried = _tool_used(value)
    if isinstance(carried, str):
        return carried
    if isinstance(value, dict) and (value.get("max") is not None or value.get("min", 1) != 1):
        return "the opposite of a range of counts has no counterpart"
    counts: JsonObject = dict.fromkeys(as_object(carried.parameters["counts"]), 0)
    return _Carried("tool_call_count", {"counts": counts, "strict": True})


def _tool_sequence(value: Json) -> _Carried | str:
    mode = as_object(value).get("mode", "in_order")
    steps = as_object(value).get("steps", value)
    names = [step if isinstance(step, str) else either(as_object(step), "pattern", "name") for step in as_list(steps)]
    if not names or not all(isinstance(name, str) for name in names):
        return "`value` must name tools"
    if any(character in str(name) for name in names for character in "*?"):
        return "an expected call has a name, and no pattern"
    if mode not in ("in_order", "exact"):
        return f"no counterpart of mode `{mode}`"
    return _Carried("tool_trajectory", {"mode": mode, "match": "name", "strict": True}, expected=names)


def _tool_args(value: Json) -> _Carried | str:
    entries = as_object(value)
    name, args = either(entries, "name", "pattern"), entries.get("args", entries.get("arguments"))
    if not isinstance(name, str) or not isinstance(args, dict) or any(character in name for character in "*?"):
        return "`value` must name a tool and its arguments as an object"
    if entries.get("defaults") is not None:
        return "`defaults` has no counterpart"
    is_partial = entries.get("mode", "partial") == "partial"
    parameters: JsonObject = {"strict": True, "subset": is_partial}
    ignored = entries.get("ignore", [])
    keys = [ignored] if isinstance(ignored, str) else as_list(ignored)
    if keys:
        parameters["arguments"] = {f"*.{key}": "ignore" for key in keys}
    is_nested = is_partial and any(isinstance(argument, dict | list) for argument in args.values())
    but = "inside of arguments, more than is expected is not free here" if is_nested else None
    return _Carried("tool_call_args", parameters, expected=[call_item(name, args)], but=but)


def _tool_call_f1(value: Json) -> _Carried | str:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else as_list(value)
    expected: list[Json] = [name for name in names if isinstance(name, str) and name]
    if not expected:
        return "`value` must name tools"
    return _Carried("tool_call_f1", {"match": "name"}, expected=expected, but="repeated calls count here")


_KINDS: dict[str, Callable[[Json], _Carried | str]] = {
    "trajectory:tool-used": _tool_used,
    "not-trajectory:tool-used": _tool_not_used,
    "trajectory:tool-sequence": _tool_sequence,
    "trajectory:tool-args-match": _tool_args,
    "tool-call-f1": _tool_call_f1,
}
