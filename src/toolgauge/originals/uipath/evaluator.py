"""What UiPath's evaluators have in common: parameters, criteria, and the two sides they are given.

Live, a reference comes from the criterion's expected calls, or in UiPath's own words from `default_evaluation_criteria`.
"""

import ast
import json
import re
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast, get_args

from msgspec import Struct
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.selection import hidden_calls, shown

_ENVELOPE = "content"

_DISALLOWED = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH = 64


# Names and order of the fields are UiPath's own: its details show calls as Python does.
class ToolCall(BaseModel):
    """A call with its arguments, made or expected."""

    model_config = ConfigDict(frozen=True)

    name: str
    args: dict[str, object]
    id: str | None = None


class ToolOutput(BaseModel):
    """A call with its output, made or expected."""

    model_config = ConfigDict(frozen=True)

    name: str
    output: str
    id: str | None = None


class LiveCall(NamedTuple):
    """A call that needs no check; a model takes five times as long."""

    name: str
    args: dict[str, object]
    id: str | None = None
    output: str = ""

    def is_key(self, key: str) -> bool:
        """Return whether an id or name means this call."""
        # Wart: with an id on the call only the id decides, so that an expected plain name finds no such call.
        if self.id is not None:
            return key == self.id
        return key == self.name or sanitised(key) == sanitised(self.name)

    def is_meant_by(self, expected: "Written") -> bool:
        """Return whether this call has the identity of an expected one."""
        if self.id is None:
            return sanitised(self.name) == sanitised(expected.name)
        return self.is_key(expected.name if expected.id is None else expected.id)


Written: TypeAlias = ToolCall | ToolOutput


def sanitised(name: str) -> str:
    """Write a name as UiPath's runtime does. Wart: `a.b` and `ab` become one name, `!!` and `??` none."""
    if len(name) <= _NAME_LENGTH and name.isascii() and name.isidentifier():
        return name
    return _DISALLOWED.sub("", "_".join(name.split()))[:_NAME_LENGTH]


def key_of(call: LiveCall) -> str:
    """Return the id of a call, else its name."""
    return call.name if call.id is None else call.id


def _read_arguments(value: object) -> dict[str, object]:
    """Read arguments as JSON, else as a Python literal. Wart: any other text looks like no arguments."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            try:
                with warnings.catch_warnings():
                    # Escapes that Python does not know are read as they are.
                    warnings.simplefilter("ignore")
                    value = ast.literal_eval(value)
            except (SyntaxError, ValueError):
                return {}
    members = cast("dict[object, object]", value) if isinstance(value, dict) else {}  # nothing is known of its items
    if not all(isinstance(key, str) for key in members):
        raise ValueError("UiPath refuses arguments with a key that is no text")
    return cast("dict[str, object]", members)  # its keys are text


def _read_output(value: Json) -> str:
    """Read an output: the content of an envelope, else the text. Wart: 0, false and null in an envelope are no output."""
    try:
        # Typed Any by json; JSON by its contract.
        parsed = cast("Json", json.loads(value)) if isinstance(value, str) else value
    except ValueError:
        parsed = value
    text = value if isinstance(value, str) else str(value)
    found = parsed.get(_ENVELOPE, "") if isinstance(parsed, dict) else text
    return str(found) if found else ""


def made_calls(trajectory: Trajectory, keys: Iterable[str | None], *, with_outputs: bool = False) -> list[LiveCall]:
    """Take over the calls; unparsable arguments are none. Ids other than UiPath's tool ids count only among the expected `keys`."""
    known = frozenset(keys)
    # Spans of a case come as they are written.
    is_raw = trajectory.case_shape == "spans"
    calls: list[LiveCall] = []
    for call in trajectory.calls:
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        found = cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {}  # JSON is made of objects
        args = _read_arguments(arguments) if is_raw else found
        own_id = call.call_id if call.call_id in known else None
        output = ""
        if with_outputs and is_raw and isinstance(call.result, Recorded):
            output = _read_output(call.result.value)
        elif with_outputs:
            output = _made_output(call.result)
        calls.append(LiveCall(call.name, args, own_id if call.tool_id is None else call.tool_id, output))
    return calls


def hidden_from(expected: Sequence[Written], calls: Sequence[LiveCall], hidden: Sequence[bool]) -> str | None:
    """Name a call that could be an expected one and that was not recorded in full."""
    for call, is_hidden in zip(calls, hidden, strict=True):
        if is_hidden and any(call.is_meant_by(wanted) for wanted in expected):
            return call.name
    return None


def _made_output(result: Content) -> str:
    match result:
        case Recorded(value=dict() as envelope):
            found = envelope.get(_ENVELOPE, "")
            return str(found) if found else ""
        case Recorded(value=str() as text) | Unparsed(text=text):
            return text
        case Recorded(value=value):
            # A result that is no object is compared as the text it was.
            return json.dumps(value, ensure_ascii=False)
        case _:
            return ""


_MAX_DIFFERENCES = 20


class Criteria(BaseModel):
    """Expectations in UiPath's own words; keys are accepted in either spelling."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


CriteriaT = TypeVar("CriteriaT", bound=Criteria)


class Verdict(Struct, frozen=True, kw_only=True):
    """A score as UiPath gives it. `details` are its texts, which hold values; they are made only where they are shown."""

    value: float
    explanation: str
    details: Callable[[], JsonObject]
    parts: dict[str, float] = {}
    differences: tuple[Difference, ...] = ()

    def outcome(self) -> Scored:
        """Leave the details out."""
        return Scored(self.value, self.explanation, self.parts, self.differences[:_MAX_DIFFERENCES])


Judging = Verdict | NotEvaluated | Errored


class UiPathEvaluator(BaseModel, Generic[CriteriaT]):
    """The parameters that all of them share; `name` and `description` change nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    case_shape: ClassVar[str] = "spans"
    looks_at_calls: ClassVar[bool] = True

    name: str = ""
    description: str = ""
    default_evaluation_criteria: CriteriaT | None = None

    @classmethod
    def case_parameters(cls, expected: JsonObject, actual: JsonObject) -> JsonObject:
        """Return the parameter that expectations of a case in UiPath's own words stand for."""
        is_own = cls.case_shape in actual and not cls.criteria_type().model_fields.keys().isdisjoint(expected)
        return {"default_evaluation_criteria": expected} if is_own else {}

    @property
    def needs(self) -> Needs:
        """What a criterion has to give where the parameters hold nothing to compare with."""
        return Needs(reference="calls" if self.default_evaluation_criteria is None else "any", raw_spans=True)

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        verdict = self._verdict(trajectory, expected)
        yield None, verdict.outcome() if isinstance(verdict, Verdict) else verdict

    def original(self, outcome: Outcome, trajectory: Trajectory, expected: Expected | None) -> JsonObject:  # noqa: ARG002 (its texts come from both sides)
        """Return UiPath's own details."""
        verdict = self._verdict(trajectory, expected)
        return {"details": verdict.details()} if isinstance(verdict, Verdict) else {}

    def _verdict(self, trajectory: Trajectory, expected: Expected | None) -> Judging:
        criteria = self.default_evaluation_criteria if expected is None else self.criteria_of(expected)
        if criteria is None:
            return NotEvaluated(reason="no_reference", explanation="nothing is given to compare with")
        if isinstance(criteria, Errored):
            return criteria
        if trajectory.hidden_turns and self.looks_at_calls:
            return hidden_calls(trajectory)
        return self.judged(criteria, trajectory)

    @classmethod
    def criteria_type(cls) -> type[CriteriaT]:
        """Return the model of the expectations, by which the class was made."""
        kinds: tuple[object, ...] = get_args(cls.model_fields["default_evaluation_criteria"].annotation)
        return cast(
            "type[CriteriaT]", kinds[0]
        )  # pydantic writes the annotation with the class in place of the variable

    @abstractmethod
    def criteria_of(self, expected: Expected) -> CriteriaT | Errored | None:
        """Write the expectations of a criterion in UiPath's words."""

    @abstractmethod
    def judged(self, criteria: CriteriaT, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""


def unsupported(expected: Expected) -> Errored | None:
    """Refuse what UiPath has no words for."""
    for call in expected.calls:
        if call.optional or call.repeat != (1, 1):
            return Errored(
                error_type="unsupported_reference",
                message=f"UiPath takes neither `optional` nor `repeat`, which {shown(call.name)} has: list each call as often"
                " as it is expected, or use `tool_trajectory`",
            )
    return None


def both_or_one_empty(expected: int, made: int, details: Callable[[str], JsonObject]) -> Verdict | None:
    """Score 1 where nothing was expected and nothing done, 0 where only one of them; `None` where both are there."""
    if expected and made:
        return None
    is_as_expected = not expected and not made
    return Verdict(
        value=float(is_as_expected),
        explanation=f"{expected} were expected and {made} calls were made",
        parts={"matched": 0, "expected": expected, "calls": made},
        details=lambda: details("both-empty" if is_as_expected else "one-empty"),
    )


# Whether an expected call (by index) equals a made one.
Equal: TypeAlias = Callable[[int, int], bool]
# The values in a line of the details: the made one and the expected one.
Shown: TypeAlias = Callable[[int, int], tuple[object, object]]


class Attempt(Struct, frozen=True):
    """One comparison that was made."""

    expected: int
    made: int
    is_equal: bool


class Attempts(Struct):
    """All comparisons, and the expected calls that found nothing equal."""

    all: list[Attempt] = []
    missing: list[int] = []

    def closest(self) -> dict[int, int]:
        """Return for expected calls the first one that they were compared with, and that was no other's."""
        used = {one.made for one in self.all if one.is_equal}
        return {one.expected: one.made for one in reversed(self.all) if one.made not in used}


def attempt(expected: Sequence[Written], made: Sequence[LiveCall], equal: Equal, *, stops: bool = False) -> Attempts:
    """Compare expected calls with made ones; `stops` at the first that differs or has nothing to be compared with."""
    attempts = Attempts()
    used: set[int] = set()
    candidates: dict[tuple[str, str | None], list[int]] = {}
    for index, wanted in enumerate(expected):
        key = (wanted.name, wanted.id)
        if key not in candidates:
            candidates[key] = [place for place, call in enumerate(made) if call.is_meant_by(wanted)]
        is_found = False
        for place in candidates[key]:
            if place in used:
                continue
            is_found = equal(index, place)
            attempts.all.append(Attempt(index, place, is_found))
            if is_found or stops:
                break
        if is_found:
            used.add(attempts.all[-1].made)
        else:
            attempts.missing.append(index)
        if stops and not is_found:
            break
    return attempts


def explained(attempts: Attempts, made: Sequence[LiveCall], texts_of: Shown) -> JsonObject:
    """Write a line for each comparison; the number behind a name counts comparisons, not calls."""
    counts: dict[str, int] = {}
    lines: JsonObject = {}
    for one in attempts.all:
        name = made[one.made].name
        number = counts.get(name, 0)
        counts[name] = number + 1
        found, wanted = texts_of(one.expected, one.made)
        lines[f"{name}_{number}"] = f"Actual: {found}, Expected: {wanted}, Score: {float(one.is_equal)}"
    return lines
