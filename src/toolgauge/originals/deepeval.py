"""`deepeval.*`: the scores of DeepEval 4.3.1, without its second question for a summary; the prompt is our own."""

from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, field_validator

from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject, Key
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import JUDGE_RULE, Difference, Errored, Level, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import Trajectory
from toolgauge.score import prompts
from toolgauge.score.align import Item, align
from toolgauge.score.equality import PythonEquality
from toolgauge.score.judged import DEFAULT_HISTORY_CHARS, UNUSABLE, AsksOnce, Writer, question
from toolgauge.score.plain_calls import Looked, PlainCall, PlainCalls, PlainComparison
from toolgauge.score.prompts import user_input

_NULL_ARGUMENTS = (
    "the original cannot compare null with arguments: `args` must be an object on both sides, or null on both"
)


class ToolCorrectness(PlainComparison):
    """`ToolCorrectnessMetric` of DeepEval, without its judge of the tools' selection (`available_tools`).

    A pair of calls of one tool weighs 1; with `evaluation_params: [input_parameters]` the share of the arguments of
    both sides that are equal, objects inside likewise; with `output` 0 where outputs differ. Each expected call takes
    the best call that is left, in the order of the expected ones; calls that are equal are taken together. The score is the
    sum / the number of expected calls. `should_consider_ordering`: the heaviest common subsequence instead.
    `should_exact_match`: 1 if all are equal at each place, else 0. `strict_mode`: 1 or 0. More calls are free, except
    where none is expected: then any is a 0, and none is a 1.

    `threshold` decides the part `passed`; what passes here is decided by the criterion's `pass_at`.
    """

    threshold: float | None = 0.5
    evaluation_params: tuple[Literal["input_parameters", "output"], ...] = ()
    should_exact_match: bool = False
    should_consider_ordering: bool = False
    strict_mode: bool = False
    available_tools: None = None

    @field_validator("available_tools", mode="before")
    @classmethod
    def _is_left_out(cls, value: object) -> object:
        if value:
            raise ValueError("asks a judge model in the original: leave it out and use `tool_selection_accuracy`")
        return None

    def looked(self) -> Looked:
        """Look at what `evaluation_params` name."""
        parameters = self.evaluation_params
        return Looked(arguments="input_parameters" in parameters, outputs="output" in parameters)

    def original(self, outcome: Outcome, *_: object) -> JsonObject:
        """Return whether the original would have passed."""
        return {"passed": self._passes(outcome.value)} if isinstance(outcome, Scored) else {}

    def compared(self, expected: PlainCalls, made: PlainCalls) -> Outcome:
        """Compare both sides."""
        if not expected:
            return self._scored(0.0 if made else 1.0, f"no call was expected and {len(made) or 'none'} made")
        equality = PythonEquality()
        wanted, found = ([self._side(call, equality) for call in calls] for calls in (expected, made))
        if self.should_exact_match:
            is_same = [side.item for side in wanted] == [side.item for side in found]
            return self._scored(float(is_same), f"the calls are {'' if is_same else 'not '}exactly those expected")
        try:
            total = (_in_order if self.should_consider_ordering else _in_any_order)(wanted, found, equality)
        except _NullArgumentsError:
            return Errored(error_type="AttributeError", message=_NULL_ARGUMENTS)
        value = min(total / len(wanted), 1.0)
        order = "in order" if self.should_consider_ordering else "in any order"
        return self._scored(value, f"the calls made cover {value:.2f} of {len(wanted)} expected ones, {order}")

    def _scored(self, value: float, explanation: str) -> Scored:
        # In strict mode the threshold is 1 and `threshold` is ignored.
        value = 0.0 if self.strict_mode and value < 1 else value
        passed = self._passes(value)
        return Scored(value=value, explanation=explanation, parts={} if passed is None else {"passed": float(passed)})

    def _passes(self, value: float) -> bool | None:
        threshold = 1.0 if self.strict_mode else self.threshold
        return None if threshold is None else value >= threshold

    def _side(self, call: PlainCall, equality: PythonEquality) -> "_Side":
        arguments, output = equality.key(call.args), equality.key(call.output)
        looked, kind = self.looked(), f"{call.type}:{call.name}"
        compared = arguments if looked.arguments else (), output if looked.outputs else ()
        # Without the type: the original takes calls for equal that differ in nothing else.
        return _Side(Item(kind=kind, key=compared), kind, call.args, *compared, identity=(call.name, arguments, output))


class _NullArgumentsError(Exception):
    """Null is compared with arguments, at which the original raises."""


class _Side(Struct, frozen=True):
    """A call made ready: keys of the compared parts, and of the parts by which calls are equal to the original."""

    item: Item
    kind: str
    args: JsonObject | None
    arguments: Key
    output: Key
    identity: Hashable


def _in_order(wanted: Sequence[_Side], found: Sequence[_Side], equality: PythonEquality) -> float:
    """Take the heaviest common subsequence; the original compares all pairs of a kind on the way."""
    made = {(side.kind, side.args is None) for side in found if side.arguments}
    if any((side.kind, side.args is not None) in made for side in wanted):
        raise _NullArgumentsError
    return align(
        [side.item for side in wanted],
        [side.item for side in found],
        lambda slot, call: _weight(wanted[slot], found[call], equality),
        order="ordered",
    ).total


def _in_any_order(wanted: Sequence[_Side], found: Sequence[_Side], equality: PythonEquality) -> float:
    """Let each expected call take the first of the best calls that are left."""
    numbers: dict[Hashable, int] = {}
    by_kind: dict[str, list[tuple[int, _Side]]] = {}
    for side in found:
        number = numbers.setdefault(side.identity, len(numbers))
        by_kind.setdefault(side.kind, []).append((number, side))
    # Nothing is better than the first whole match, but the original continues and may find null.
    looks_on = any(side.args is None and side.arguments for side in (*wanted, *found))
    total = 0.0
    # The original remembers taken calls by value: equal calls of any type are taken together.
    taken: set[int] = set()
    for side in wanted:
        best, best_number = 0.0, -1
        left = by_kind[side.kind] = [entry for entry in by_kind.get(side.kind, ()) if entry[0] not in taken]
        for number, other in left:
            weight = _weight(side, other, equality)
            if weight > best:
                best, best_number = weight, number
            if weight == 1.0 and not looks_on:
                break
        total += best
        taken.add(best_number)
    return total


def _weight(wanted: _Side, found: _Side, equality: PythonEquality) -> float:
    share = 1.0
    if wanted.arguments != found.arguments:
        if wanted.args is None or found.args is None:
            raise _NullArgumentsError
        share = _share(wanted.args, found.args, equality)
    return share if wanted.output == found.output else 0.0


def _share(wanted: JsonObject, found: JsonObject, equality: PythonEquality) -> float:
    """Return the share of the names on either side whose values are equal; two objects count by their own share."""
    total, share = len(wanted.keys() | found.keys()), 0.0
    for name, first in wanted.items():
        second = found.get(name)
        if name in found and equality.same(first, second):
            share += 1 / total
        elif isinstance(first, dict) and isinstance(second, dict):
            share += _share(first, second, equality) / total
    return share


class ArgumentCorrectness(AsksOnce, BaseModel):
    """The share of calls whose arguments the judge finds correct, among those it gave a verdict on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = prompts.DEEPEVAL_ARGUMENT_CORRECTNESS.version
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(reference="none")

    threshold: float = 0.5
    # Anything below 1 is 0.
    strict_mode: bool = False
    max_history_chars: int = Field(default=DEFAULT_HISTORY_CHARS, ge=1000, le=10_000_000)

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield the question about all calls; without calls the original scores 1."""
        if not trajectory.calls:
            yield None, self._scored(1.0, "no call to judge")
            return
        writer = Writer(self.max_history_chars)
        asked = writer.text(prompts.INPUT, "user", user_input(trajectory) or prompts.NOT_RECORDED)
        calls = writer.calls(prompts.TRAJECTORY, trajectory.calls)
        yield None, question(prompts.DEEPEVAL_ARGUMENT_CORRECTNESS, (asked, calls), writer)

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Score the share of `yes` among any number of verdicts."""
        verdicts = verdict.get("verdicts")
        if not isinstance(verdicts, list):
            return UNUSABLE
        answers = [one.get("verdict") for one in verdicts if isinstance(one, dict)]
        score = answers.count("yes") / len(answers) if answers else 1.0
        # Wart of the original: verdicts that are missing count for nothing.
        return self._scored(
            score,
            f"the judge says yes to {answers.count('yes')} of {len(answers)} calls",
            Difference(where="verdicts", rule=JUDGE_RULE, actual=Side(value=verdicts)),
        )

    def original(self, outcome: Outcome, *_: object) -> JsonObject:
        """Return whether the original would have passed."""
        return {"passed": bool(outcome.parts["passed"])} if isinstance(outcome, Scored) else {}

    def _scored(self, score: float, explanation: str, *differences: Difference) -> Scored:
        value = 0.0 if self.strict_mode and score < 1 else score
        passed = value >= (1.0 if self.strict_mode else self.threshold)
        return Scored(value=value, explanation=explanation, parts={"passed": float(passed)}, differences=differences)
