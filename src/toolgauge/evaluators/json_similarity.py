"""`json_similarity`: how alike are the agent's final answer and the expected one?"""

import json
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.left_out import is_cut
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.compare import compare, describe
from toolgauge.score.rules import Similarity
from toolgauge.score.selection import CallSelection, shown

_WHOLE = "*"
_MAX_TEXT = 4 * 1024 * 1024
_DESCRIBED = 5
_FENCE = "```"
# One step of a path: `.name`, `name` at its beginning, or `[2]`.
_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d{1,9})\]")

_Step: TypeAlias = str | int


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _readable(keys: tuple[str, ...]) -> tuple[str, ...]:
    if not keys:
        raise ValueError("must name at least one key, or `*` for the whole answer")
    for key in keys:
        if not key or (key != _WHOLE and "".join(match[0] for match in _STEP.finditer(key)) != key):
            raise ValueError(f"`{key}` is no path such as `result`, `order.items[0].id`")
    if _WHOLE in keys and len(keys) > 1:
        raise ValueError("`*` is the whole answer and stands alone")
    return keys


Keys: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(_several, json_schema_input_type=str | tuple[str, ...]),
    AfterValidator(_readable),
    Field(max_length=100),
]


class JsonSimilarity(CallSelection):
    """How alike the agent's final answer and the expected one (`expected_output`) are, from 0 to 1.

    The answer is the last message of the assistant. Where the expected one is an object or a list (or a text that holds
    one as JSON), an answer that is JSON text is read as JSON, also within one code fence; one that is not scores 0.

    The score is the mean over the leaves of both sides, so that surplus keys and items cost as much as missing ones;
    with `subset` keys that are not expected are free. Text scores 1 - edit distance / longer length, numbers
    1 - difference / larger magnitude, all else is equal or not; items of lists are compared by place.

    `target_output_key` is a key, a path (`order.items[0].id`) or a list of them, which are all that is compared. One that
    the answer lacks scores 0 for its leaves; one that the expected answer lacks expects nothing.

    Parts: `leaves` on both sides together, and `matched_leaves`, the sum of their scores. No call is looked at: `tools`
    and `failed_calls` are there as for all evaluators, and change nothing.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs_answer: ClassVar[bool] = True

    target_output_key: Keys = (_WHOLE,)
    subset: bool = False

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        if expected is None or expected.answer is None:
            yield None, NotEvaluated(reason="no_reference", explanation="no answer is given to compare with")
            return
        answer = next((message.text for message in reversed(trajectory.messages) if message.role == "assistant"), None)
        if answer is None:
            yield None, NotEvaluated(reason="no_content", explanation="no message of the assistant was recorded")
            return
        if is_cut(answer):
            yield None, NotEvaluated(reason="truncated", explanation="the answer was too long to keep")
            return
        yield None, self._compared(expected.answer.value, answer)

    def _compared(self, expected: Json, answer: str) -> Outcome:
        wanted = _structure(expected) if isinstance(expected, str) else expected
        found: Json = answer
        is_structured = isinstance(wanted, dict | list)
        if is_structured or not isinstance(wanted, str):
            found = _structure(answer) if is_structured else _read(answer)
        is_text = is_structured and isinstance(found, str)
        where = "answer"
        if self.target_output_key != (_WHOLE,):
            parts = _picked(wanted, self.target_output_key)
            absent = [key for key in self.target_output_key if key not in parts]
            if absent:
                return NotEvaluated(
                    reason="nothing_expected", explanation=f"the expected answer has no {shown(absent[0])}"
                )
            wanted, found, where = parts, _picked(found, self.target_output_key), ""
        if self.subset:
            found = _pruned(wanted, found)
        comparison = compare(Similarity(), wanted, found, where=where)
        notes = [describe(difference) for difference in comparison.differences[:_DESCRIBED]]
        if is_text:
            notes = ["the answer is no JSON"]
        return Scored(
            value=comparison.value,
            explanation="; ".join([f"{comparison.leaves} leaves compared", *notes]),
            parts={"leaves": comparison.leaves, "matched_leaves": comparison.value * comparison.leaves},
            differences=comparison.differences,
        )


def _structure(text: str) -> Json:
    """Read a text that holds an object or a list as JSON; any other text stays as it is."""
    inner = _unfenced(text)
    if inner[:1] not in ("{", "["):
        return text
    value = _read(inner)
    return value if isinstance(value, dict | list) else text


def _read(text: str) -> Json:
    if len(text) > _MAX_TEXT:
        return text
    try:
        return cast("Json", json.loads(text))  # typed Any by json; JSON by its contract
    except (ValueError, RecursionError):
        return text


def _unfenced(text: str) -> str:
    """Take the fence off a text that is one block of code."""
    inner = text.strip()
    if not inner.startswith(_FENCE) or not inner.endswith(_FENCE) or inner.count(_FENCE) != 2:
        return inner
    return inner[len(_FENCE) : -len(_FENCE)].partition("\n")[2].strip()


def _picked(value: Json, keys: tuple[str, ...]) -> JsonObject:
    """Pick what stands at the keys that are there, by key."""
    picked: JsonObject = {}
    for key in keys:
        found = _at(value, key)
        if found is not None:
            picked[key] = found[0]
    return picked


def _at(value: Json, key: str) -> tuple[Json] | None:
    # A key that holds dots itself goes before the path that it looks like.
    if isinstance(value, dict) and key in value:
        return (value[key],)
    for step in _steps(key):
        match value, step:
            case list() as items, int() if step < len(items):
                value = items[step]
            case dict() as members, str() if step in members:
                value = members[step]
            case _:
                return None
    return (value,)


def _steps(key: str) -> Iterator[_Step]:
    for match in _STEP.finditer(key):
        yield int(match[2]) if match[2] else match[1]


def _pruned(expected: Json, actual: Json) -> Json:
    """Copy the actual value without keys that are not expected; without recursion, as spans decide how deep it is."""
    top = _kept(expected, actual)
    stack: list[tuple[Json, Json]] = [(expected, top)]
    while stack:
        wanted, copy = stack.pop()
        if isinstance(wanted, dict) and isinstance(copy, dict):
            for name in copy:
                copy[name] = _kept(wanted[name], copy[name])
                stack.append((wanted[name], copy[name]))
        elif isinstance(wanted, list) and isinstance(copy, list):
            for place, (item, found) in enumerate(zip(wanted, copy, strict=False)):
                copy[place] = _kept(item, found)
                stack.append((item, copy[place]))
    return top


def _kept(expected: Json, actual: Json) -> Json:
    """Copy one level, so that the levels below can be exchanged."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {name: actual[name] for name in expected if name in actual}
    return list(actual) if isinstance(expected, list) and isinstance(actual, list) else actual
