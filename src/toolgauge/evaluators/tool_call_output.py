"""`tool_call_output`: did the expected calls give back what they should?"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json
from toolgauge.model.mcp_results import failed_mcp_result
from toolgauge.model.outcomes import ERROR_RULE, Difference, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, Item, Pair, align
from toolgauge.score.compare import Comparison, compare, describe
from toolgauge.score.equality import Identities
from toolgauge.score.recorded_values import result_value
from toolgauge.score.rules import Exact, Rule, Similarity
from toolgauge.score.selection import CallComparison, Sides, make_sides, not_executed, shown, was_stopped
from toolgauge.score.summary import counts, greedy_note, leftovers

_ENVELOPE = "content"
_ERROR = "error"
_MAX_TEXT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Returned:
    """The call gave this back."""

    value: Json


@dataclass(frozen=True, slots=True)
class Failed:
    """The call failed; `texts` are the kind and the message of the error, as far as they are known."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unseen:
    """What the call gave back was not recorded, or not in full."""

    reason: Literal["results_not_recorded", "redacted", "truncated", "not_executed"]


Output: TypeAlias = Returned | Failed | Unseen


def output_of(call: ToolCall) -> Output:
    """Return the output of a call; a failed one has an error, even where an output was recorded, too."""
    if call.has_failed:
        error = call.error
        return Failed(() if error is None else tuple(text for text in (error.kind, error.message) if text))
    if was_stopped(call):
        return Unseen("not_executed")
    match call.result:
        case Recorded(value=value):
            return Returned(opened(value))
        case Unparsed(reason="truncated"):
            return Unseen("truncated")
        case Unparsed(text=text):
            return Returned(opened(text))
        case NotRecorded(reason="redacted"):
            return Unseen("redacted")
        case NotRecorded():
            return Unseen("results_not_recorded")


def expected_error(output: ExpectedOutput) -> str | bool | None:
    """Return what error is expected: its kind or message, True for any; `None` where none is.

    It is written `{"error": "..."}`, `{"error": true}`, or as the result of an MCP tool that failed.
    """
    failed = failed_mcp_result(output.value)
    if failed is not None:
        return failed.text or True
    value = opened(output.value)
    if not isinstance(value, dict) or list(value) != [_ERROR]:
        return None
    error = value[_ERROR]
    return error if isinstance(error, str) or error is True else None


def opened(value: Json) -> Json:
    """Open the content blocks of MCP and `{"content": ...}`, and read a text that is JSON."""
    value = _read(value)
    in_blocks = result_value(value)
    if in_blocks is not value:
        return _read(in_blocks)
    if isinstance(value, dict) and list(value) == [_ENVELOPE]:
        return _read(value[_ENVELOPE])
    return value


def _read(value: Json) -> Json:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        return value
    try:
        return cast("Json", json.loads(value))  # typed Any by json; JSON by its contract
    except (ValueError, RecursionError):
        return value


_MAX_DIFFERENCES = 20
_DESCRIBED = 4
_QUOTE = "`"
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
        names_only = all(call.args is None for call in expected)
        sides = make_sides(expected, calls, names_only=names_only)
        weighing = _weighing(sides, Similarity() if self.similarity == "json" else Exact())
        alignment = align(
            weighing.slot_items,
            weighing.call_items,
            weighing.weigh,
            # Shares of equal arguments and equal outputs are distances, and so is their sum; edit distances are not.
            peel=self.similarity == "exact",
            max_pairs=_MAX_PAIRS,
        )
        return self._outcome(weighing, alignment)

    def _outcome(self, weighing: "_Weighing", alignment: Alignment) -> Outcome:
        sides = weighing.sides
        judged = [pair for pair in alignment.pairs if sides.slots[pair.expected].output is not None]
        missing = [slot for slot in alignment.missing if sides.slots[slot].output is not None]
        wanted = len(judged) + len(missing)
        if not wanted:
            return NotEvaluated(reason="nothing_expected", explanation="no call that may be missing was made")
        verdicts: list[_Verdict] = []
        whole = 0
        for pair in judged:
            verdict = weighing.verdict(pair)
            whole += verdict.value == 1.0
            verdicts.append(verdict)
        if whole < wanted:
            unseen = _unseen(sides, weighing.outputs)
            if unseen is not None:
                return unseen
        notes = [f"{whole} of {wanted} outputs are as expected"]
        below = [verdict.note for verdict in verdicts if verdict.note]
        notes += below[:_DESCRIBED]
        if len(below) > _DESCRIBED:
            notes.append(f"{len(below) - _DESCRIBED} more")
        notes += [*leftovers(sides, alignment), *greedy_note(alignment)]
        if self.strict and whole < wanted:
            notes.append("strict: all of them have to be")
        differences = [difference for verdict in verdicts for difference in verdict.differences]
        differences += _missing(sides, missing)
        return Scored(
            value=float(whole == wanted) if self.strict else sum(verdict.value for verdict in verdicts) / wanted,
            explanation="; ".join(notes),
            parts={"outputs": wanted, "outputs_met": whole, **counts(alignment)},
            differences=tuple(differences[:_MAX_DIFFERENCES]),
        )


class _Verdict(Struct, frozen=True):
    """The value, notes and differences of one expected output."""

    value: float
    note: str = ""
    differences: tuple[Difference, ...] = ()


class _Weighing:
    """Weighs pairs of calls by their arguments and outputs."""

    __slots__ = ("_alike", "_rule", "call_items", "call_keys", "outputs", "sides", "slot_items", "slot_keys")

    def __init__(self, sides: Sides, rule: Rule) -> None:
        self.sides = sides
        self.outputs: tuple[Output, ...] = ()
        self.slot_items: tuple[Item, ...] = ()
        self.call_items: tuple[Item, ...] = ()
        # Numbers of the outputs, equal for equal ones; `None` where there is none to compare.
        self.slot_keys: tuple[int | None, ...] = ()
        self.call_keys: tuple[int | None, ...] = ()
        self._rule = rule
        self._alike: dict[tuple[int, int], float] = {}

    def read(self) -> None:
        """Read the outputs of both sides."""
        identities = Identities()
        outputs: list[Output] = []
        call_keys: list[int | None] = []
        for call in self.sides.calls:
            output = output_of(call)
            outputs.append(output)
            key = None
            if isinstance(output, Returned):
                key = identities.of(output.value)
            call_keys.append(key)
        known: dict[int, int] = {}
        slot_keys: list[int | None] = []
        for slot in self.sides.slots:
            key = None
            if slot.output is not None:
                # A call that may repeat is several slots with one output.
                if id(slot.output) not in known:
                    known[id(slot.output)] = identities.of(opened(slot.output.value))
                key = known[id(slot.output)]
            slot_keys.append(key)
        self.outputs, self.call_keys, self.slot_keys = tuple(outputs), tuple(call_keys), tuple(slot_keys)
        # Equal in arguments and output is equal outright; what has no output, or an error, equals nothing.
        self.slot_items = tuple(
            replace(item, key=(item.key, "none" if key is None else key))
            for item, key in zip(self.sides.slot_items, slot_keys, strict=True)
        )
        self.call_items = tuple(
            replace(item, key=(item.key, ("no output", index) if key is None else key))
            for index, (item, key) in enumerate(zip(self.sides.call_items, call_keys, strict=True))
        )

    def weigh(self, slot: int, call: int) -> float | None:
        """Return how well the pair fits; `None` where ids forbid it."""
        if not self.sides.may_pair(slot, call):
            return None
        wanted, found = self.sides.slot_arguments[slot], self.sides.call_arguments[call]
        arguments = 1.0
        if wanted is not None:
            shared = 0 if found is None else sum(found.get(name) == key for name, key in wanted.items())
            compared = len(wanted.keys() | (found or {}).keys())
            arguments = shared / compared if compared else float(found is not None)
        # A call whose output nobody asks for should not take the place of one that fits.
        output = 0.5 if self.sides.slots[slot].output is None else self._output(slot, call)
        return (_ARGUMENTS_WEIGH * arguments + output) / (_ARGUMENTS_WEIGH + 1)

    def _output(self, slot: int, call: int) -> float:
        expected, output = self.sides.slots[slot].output, self.outputs[call]
        if expected is None:
            return 0.0
        wanted, found = self.slot_keys[slot], self.call_keys[call]
        if isinstance(output, Failed):
            error = expected_error(expected)
            return float(error is True or (error is not None and error in output.texts))
        if wanted is None or found is None:
            return 0.0
        if wanted == found:
            return 1.0
        if isinstance(self._rule, Exact):
            return float(expected_error(expected) is True and _has_error_text(output))
        if (wanted, found) not in self._alike:
            self._alike[wanted, found] = self._compare(slot, call, "").value
        return self._alike[wanted, found]

    def _compare(self, slot: int, call: int, where: str) -> Comparison:
        expected, output = self.sides.slots[slot].output, self.outputs[call]
        wanted = None if expected is None else opened(expected.value)
        found = output.value if isinstance(output, Returned) else None
        return compare(self._rule, wanted, found, where=where)

    def verdict(self, pair: Pair) -> _Verdict:
        """Compare the output of a pair."""
        value = self._output(pair.expected, pair.actual)
        if value == 1.0:
            return _Verdict(1.0)
        slot, output = self.sides.slots[pair.expected], self.outputs[pair.actual]
        where = f"{shown(slot.name).strip(_QUOTE)}: output"
        wanted = Side(value=None if slot.output is None else slot.output.value)
        match output:
            case Failed(texts=texts):
                error: Json = {"error": texts[-1] if texts else True}
                differences = (Difference(where=where, rule=ERROR_RULE, expected=wanted, actual=Side(value=error)),)
                failed = "failed in another way" if _is_error(slot) else "failed and has an error instead of an output"
                return _Verdict(value, f"{shown(slot.name)} {failed}", differences)
            case Unseen():
                return _Verdict(value, f"the output of {shown(slot.name)} was not recorded")
            case Returned():
                comparison = self._compare(pair.expected, pair.actual, where)
                return _Verdict(value, describe(comparison.differences[0]), comparison.differences)


def _weighing(sides: Sides, rule: Rule) -> _Weighing:
    weighing = _Weighing(sides, rule)
    weighing.read()
    return weighing


def _has_error_text(output: Output) -> bool:
    return isinstance(output, Returned) and isinstance(output.value, dict) and list(output.value) == ["error"]


def _is_error(slot: ExpectedCall) -> bool:
    return slot.output is not None and expected_error(slot.output) is not None


def _unseen(sides: Sides, outputs: Sequence[Output]) -> NotEvaluated | None:
    """Return the outcome for an output that could be an expected one and was not recorded."""
    names = {slot.name for slot in sides.slots if slot.output is not None}
    for call, output in zip(sides.calls, outputs, strict=True):
        if isinstance(output, Unseen) and call.name in names:
            if output.reason == "not_executed":
                return not_executed(call)
            words = {"results_not_recorded": "not recorded", "redacted": "redacted", "truncated": "cut off"}
            return NotEvaluated(
                reason=output.reason, explanation=f"the output of {shown(call.name)} was {words[output.reason]}"
            )
    return None


def _missing(sides: Sides, slots: Sequence[int]) -> Iterator[Difference]:
    for slot in slots:
        call = sides.slots[slot]
        expected = None if call.output is None else Side(value=call.output.value)
        yield Difference(where=call.name, rule="missing call", expected=expected)
