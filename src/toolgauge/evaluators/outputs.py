"""`json_similarity` and `tool_call_output`: are the final answer, and the outputs of calls, as expected?"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AfterValidator, BeforeValidator, Field

from toolgauge.model.content import Recorded
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.left_out import is_cut
from toolgauge.model.mcp_results import failed_mcp_result
from toolgauge.model.outcomes import ERROR_RULE, Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Pair, align
from toolgauge.score.arguments import counts, leftovers, pairing_notes
from toolgauge.score.compare import compare, describe
from toolgauge.score.equality import Identities
from toolgauge.score.patterns import Step, values_at
from toolgauge.score.recorded_values import result_value
from toolgauge.score.rules import Exact, Rule, Similarity
from toolgauge.score.selection import (
    CallComparison,
    CallSelection,
    Sides,
    first_notes,
    make_sides,
    not_executed,
    recorded_result,
    shown,
    was_stopped,
)

_WHOLE = "*"
_MAX_TEXT = 4 * 1024 * 1024
_DESCRIBED = 5
_FENCE = "```"
# One step of a path: `.name`, `name` at its beginning, or `[2]`.
_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d{1,9})\]")


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
    BeforeValidator(
        lambda keys: (keys,) if isinstance(keys, str) else keys, json_schema_input_type=str | tuple[str, ...]
    ),
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
    needs: ClassVar[Needs] = Needs(reference="answer", recent_offer=True)

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
        wanted: Json = expected.answer.value
        wanted = _structure(wanted) if isinstance(wanted, str) else wanted
        is_structured = isinstance(wanted, dict | list)
        found: Json = answer
        if is_structured:
            found = _structure(answer)
        elif not isinstance(wanted, str):
            found = _read(answer)
        is_text = is_structured and isinstance(found, str)
        where = "answer"
        if self.target_output_key != (_WHOLE,):
            parts = _picked(wanted, self.target_output_key)
            absent = [key for key in self.target_output_key if key not in parts]
            if absent:
                explanation = f"the expected answer has no {shown(absent[0])}"
                yield None, NotEvaluated(reason="nothing_expected", explanation=explanation)
                return
            wanted, found, where = parts, _picked(found, self.target_output_key), ""
        if self.subset:
            found = _pruned(wanted, found)
        comparison = compare(Similarity(), wanted, found, where=where)
        leaves, value = comparison.leaves, comparison.value
        notes = [describe(difference) for difference in comparison.differences[:_DESCRIBED]]
        explanation = "; ".join([f"{leaves} leaves compared", *(["the answer is no JSON"] if is_text else notes)])
        figures = {"leaves": leaves, "matched_leaves": value * leaves}
        yield None, Scored(value, explanation, figures, comparison.differences)


def _structure(text: str) -> Json:
    """Read a text that holds an object or a list as JSON, also one inside a code fence; return any other as it is."""
    inner = text.strip()
    if inner.startswith(_FENCE) and inner.endswith(_FENCE) and inner.count(_FENCE) == 2:
        inner = inner[len(_FENCE) : -len(_FENCE)].partition("\n")[2].strip()
    value = _read(inner) if inner[:1] in ("{", "[") else text
    return value if isinstance(value, dict | list) else text


def _read(value: Json) -> Json:
    """Read a text that is JSON; return anything else as it is."""
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        return value
    try:
        return cast("Json", json.loads(value))  # typed Any by json; JSON by its contract
    except (ValueError, RecursionError):
        return value


def _picked(value: Json, keys: tuple[str, ...]) -> JsonObject:
    """Return the values at the keys and paths that exist."""
    picked: JsonObject = {}
    for key in keys:
        steps = [Step(key=one[1], place=int(one[2]) if one[2] else None) for one in _STEP.finditer(key)]
        # A key that holds dots itself goes before the path that it looks like.
        found = [value[key]] if isinstance(value, dict) and key in value else values_at(value, steps)
        if found:
            picked[key] = found[0]
    return picked


def _pruned(expected: Json, actual: Json) -> Json:
    """Copy the actual value without keys that are not expected; without recursion, as spans decide how deep it is."""
    top = [actual]
    left: list[tuple[Callable[[Json], object], Json, Json]] = [(partial(top.__setitem__, 0), expected, actual)]
    while left:
        put, wanted, found = left.pop()
        if isinstance(wanted, dict) and isinstance(found, dict):
            kept = {name: found[name] for name in wanted if name in found}
            put(kept)
            left += [(partial(kept.__setitem__, name), wanted[name], one) for name, one in kept.items()]
        elif isinstance(wanted, list) and isinstance(found, list):
            items = [*found]
            put(items)
            left += [(partial(items.__setitem__, at), wanted[at], one) for at, one in enumerate(found[: len(wanted)])]
    return top[0]


_ENVELOPE = "content"
_ERROR = "error"
_MAX_DIFFERENCES = 20
_MAX_NOTES = 4
# Comparing outputs costs more than comparing keys; beyond this, pairs are looked for near by.
_MAX_PAIRS = 100_000
# Arguments say which call an expected one is; outputs decide where they leave a choice, and where a third of the
# arguments speaks for one call and the output for another: else the order of the calls would.
_ARGUMENTS_WEIGH = 2.999999


class ToolCallOutput(CallComparison):
    """How well the outputs of calls agree with the expected ones: the sum over expected outputs / their number.

    An output scores 1 if it is equal to the expected one and 0 if not; with `similarity: json` it scores how alike they
    are. Outputs are compared as JSON: `{"a": 1}` as a mapping, as text in any spelling, or as either inside
    `{"content": ...}` are one output, on both sides. Null, false, 0 and empty outputs are values like any other.

    A call that failed has an error and no output: it scores 0 unless the error is what is expected, which is written
    `output: {error: "<its kind or message>"}`, or `output: {error: true}` for any. The same is met by a call that went
    well and gave back `{"error": ...}` itself.

    Calls are paired with expected ones of the same name one to one, in any order: by `id` where both sides have one, then
    for the best sum of how well arguments agree (where `args` are expected), then of outputs. Expected calls without
    `output` are paired and not scored. A call that was not made scores 0; one that may be missing (`optional`,
    `repeat`) counts only where it was made. `strict`: 1 if each output scores 1, else 0.

    Not evaluated: no output is expected; or an output that the score hangs on was not recorded.
    """

    version: ClassVar[str] = "1"

    strict: bool = False
    similarity: Literal["exact", "json"] = "exact"

    def compared(
        self,
        expected: Sequence[ExpectedCall],
        calls: Sequence[ToolCall],
        trajectory: Trajectory,  # noqa: ARG002 (only calls count)
    ) -> Outcome:
        """Compare the calls of one turn."""
        if all(call.output is None for call in expected):
            return NotEvaluated(reason="nothing_expected", explanation="no output is expected")
        # Where no arguments are expected, calls with equal outputs are equal, and paired without looking at all pairs.
        sides = make_sides(expected, calls, names_only=all(call.args is None for call in expected))
        weighing = _Weighing(sides, Similarity() if self.similarity == "json" else Exact())
        alignment = align(
            weighing.slot_items,
            weighing.call_items,
            weighing.weigh,
            # Shares of equal arguments and equal outputs are distances, and so is their sum; edit distances are not.
            peel=self.similarity == "exact",
            max_pairs=_MAX_PAIRS,
        )
        missing = [call for slot in alignment.missing if (call := sides.slots[slot]).output is not None]
        verdicts = [weighing.verdict(pair) for pair in alignment.pairs if sides.slots[pair.expected].output is not None]
        wanted, whole = len(verdicts) + len(missing), sum(verdict.value == 1.0 for verdict in verdicts)
        if not wanted:
            return NotEvaluated(reason="nothing_expected", explanation="no call that may be missing was made")
        names = {call.name for call in expected if call.output is not None}
        for call, output in zip(calls, weighing.outputs, strict=True):
            if whole < wanted and isinstance(output, NotEvaluated) and call.name in names:
                # It could be an expected output, and was not recorded.
                return output
        below = [verdict.explanation for verdict in verdicts if verdict.explanation]
        notes = [f"{whole} of {wanted} outputs are as expected", *first_notes(below, _MAX_NOTES)]
        notes += [*leftovers(sides, alignment), *pairing_notes(alignment)]
        if self.strict and whole < wanted:
            notes.append("strict: all of them have to be")
        differences = [difference for verdict in verdicts for difference in verdict.differences]
        for call in missing:
            expected_side = None if call.output is None else Side(value=call.output.value)
            differences.append(Difference(where=call.name, rule="missing call", expected=expected_side))
        return Scored(
            value=float(whole == wanted) if self.strict else sum(verdict.value for verdict in verdicts) / wanted,
            explanation="; ".join(notes),
            parts={"outputs": wanted, "outputs_met": whole, **counts(alignment)},
            differences=tuple(differences[:_MAX_DIFFERENCES]),
        )


class _Weighing:
    def __init__(self, sides: Sides, rule: Rule) -> None:
        self._sides = sides
        self._rule = rule
        self._alike: dict[tuple[int, int], float] = {}
        identities = Identities()
        self.outputs: list[Recorded | _Failed | NotEvaluated] = []
        for call in sides.calls:
            if call.has_failed:
                # A failed call has an error, even where an output was recorded, too.
                texts = () if call.error is None else (call.error.kind, call.error.message)
                self.outputs.append(_Failed(tuple(filter(None, texts))))
                continue
            value = not_executed(call) if was_stopped(call) else recorded_result(call, "the output")
            self.outputs.append(value if isinstance(value, NotEvaluated) else Recorded(_opened(value)))
        # Numbers of the outputs, equal for equal ones; `None` without an output to compare.
        self._call_keys = [identities.of(one.value) if isinstance(one, Recorded) else None for one in self.outputs]
        # A call that may repeat is several slots with one output.
        outputs = {id(slot.output): slot.output for slot in sides.slots if slot.output is not None}
        known = {key: identities.of(_opened(output.value)) for key, output in outputs.items()}
        self._slot_keys = [known.get(id(slot.output)) for slot in sides.slots]
        # Equal in arguments and output is equal outright; a call without an output, or with an error, equals nothing.
        self.slot_items = [
            replace(item, key=(item.key, "none" if key is None else key))
            for item, key in zip(sides.slot_items, self._slot_keys, strict=True)
        ]
        self.call_items = [
            replace(item, key=(item.key, ("no output", index) if key is None else key))
            for index, (item, key) in enumerate(zip(sides.call_items, self._call_keys, strict=True))
        ]

    def weigh(self, slot: int, call: int) -> float | None:
        """Return how well the pair fits; `None` where ids forbid it."""
        if not self._sides.may_pair(slot, call):
            return None
        wanted, found = self._sides.slot_arguments[slot], self._sides.call_arguments[call]
        arguments = 1.0
        if wanted is not None:
            shared = 0 if found is None else sum(found.get(name) == key for name, key in wanted.items())
            compared = len(wanted.keys() | (found or {}).keys())
            arguments = shared / compared if compared else float(found is not None)
        # A call whose output nobody asks for should not take the place of one that fits.
        output = 0.5 if self._sides.slots[slot].output is None else self._value(slot, call)
        return (_ARGUMENTS_WEIGH * arguments + output) / (_ARGUMENTS_WEIGH + 1)

    def _value(self, slot: int, call: int) -> float:
        expected, output = self._sides.slots[slot].output, self.outputs[call]
        wanted, found = self._slot_keys[slot], self._call_keys[call]
        if expected is not None and isinstance(output, _Failed):
            error = _expected_error(expected)
            return float(error is True or (error is not None and error in output.texts))
        if expected is None or wanted is None or found is None or not isinstance(output, Recorded):
            return 0.0
        if wanted == found:
            return 1.0
        if isinstance(self._rule, Exact):
            has_error = isinstance(output.value, dict) and list(output.value) == [_ERROR]
            return float(has_error and _expected_error(expected) is True)
        if (wanted, found) not in self._alike:
            self._alike[wanted, found] = compare(self._rule, _opened(expected.value), output.value, where="").value
        return self._alike[wanted, found]

    def verdict(self, pair: Pair) -> Scored:
        """Compare the output of a pair."""
        value = self._value(pair.expected, pair.actual)
        slot, output = self._sides.slots[pair.expected], self.outputs[pair.actual]
        expected = slot.output
        if value == 1.0 or expected is None:
            return Scored(value, "")
        name = shown(slot.name)
        where = f"{name.strip('`')}: output"
        match output:
            case _Failed(texts=texts):
                error = Side(value={_ERROR: texts[-1] if texts else True})
                difference = Difference(where=where, rule=ERROR_RULE, expected=Side(value=expected.value), actual=error)
                is_other = _expected_error(expected) is not None
                how = "failed in another way" if is_other else "failed and has an error instead of an output"
                return Scored(value, f"{name} {how}", differences=(difference,))
            case NotEvaluated():
                return Scored(value, f"the output of {name} was not recorded")
            case Recorded():
                comparison = compare(self._rule, _opened(expected.value), output.value, where=where)
                return Scored(value, describe(comparison.differences[0]), differences=comparison.differences)


class _Failed(Struct, frozen=True):
    """The call failed; `texts` are the kind and the message of the error, as far as they are known."""

    texts: tuple[str, ...]


def _expected_error(output: ExpectedOutput) -> str | bool | None:
    """Return the expected error, `{"error": ...}` or a failed MCP result: its kind or message, True for any."""
    failed = failed_mcp_result(output.value)
    if failed is not None:
        return failed.text or True
    value = _opened(output.value)
    if not isinstance(value, dict) or list(value) != [_ERROR]:
        return None
    error = value[_ERROR]
    return error if isinstance(error, str) or error is True else None


def _opened(value: Json) -> Json:
    """Open the content blocks of MCP and `{"content": ...}`, and read a text that is JSON."""
    value = _read(value)
    in_blocks = result_value(value)
    if in_blocks is not value:
        return _read(in_blocks)
    if isinstance(value, dict) and list(value) == [_ENVELOPE]:
        return _read(value[_ENVELOPE])
    return value
