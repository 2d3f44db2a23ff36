"""What UiPath's evaluators have in common: parameters, criteria, and the two sides they are given.

Live, a reference comes from the criterion's expected calls, or in UiPath's own words from `default_evaluation_criteria`.
"""

import ast
import json
import re
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast, get_args

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Scored
from toolgauge.model.ports import CaseOutcome, Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.plain_calls import kind_of
from toolgauge.score.selection import hidden_calls, shown

_TOOL_NAME = "tool.name"
_TOOL_ID = "tool.id"
_SYNTHESIZED = "tool.synthesized"
_INPUT = "input.value"
_OUTPUT = "output.value"
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
    """A call that needs no check and is not shown; a model takes five times as long."""

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


def spans_of(actual: JsonObject) -> Iterator[JsonObject]:
    """Yield the attributes of the spans that count; raise `ValueError` when there are no spans as documented."""
    written = actual.get("spans")
    if not isinstance(written, list):
        raise ValueError(f"`spans` must be a list, not {kind_of(written)}")
    for span in written:
        attributes = span.get("attributes") if isinstance(span, dict) else None
        if not isinstance(span, dict) or not isinstance(attributes, dict | None):
            raise ValueError("`spans` must be a list of objects with `attributes`")
        if attributes and attributes.get(_TOOL_NAME) and not attributes.get(_SYNTHESIZED):
            yield attributes


def written_calls(actual: JsonObject, *, with_arguments: bool) -> list[ToolCall]:
    """Read the calls; raises pydantic's error for arguments with a key that is no text."""
    calls: list[ToolCall] = []
    for attributes in spans_of(actual):
        # Wart: a key of another kind than text is an error. The type says what has to be found out.
        found = cast("dict[str, object]", read_arguments(attributes.get(_INPUT, {}))) if with_arguments else {}
        calls.append(ToolCall(name=str(attributes[_TOOL_NAME]), args=found, id=_id(attributes)))
    return calls


def written_outputs(actual: JsonObject) -> list[ToolOutput]:
    """Read the outputs of the calls."""
    return [
        ToolOutput(
            name=str(attributes[_TOOL_NAME]), output=read_output(attributes.get(_OUTPUT, "")), id=_id(attributes)
        )
        for attributes in spans_of(actual)
    ]


def read_arguments(value: Json) -> Mapping[object, object]:
    """Read arguments as JSON, else as a Python literal. Wart: any other text looks like no arguments."""
    if isinstance(value, dict):
        return cast("Mapping[object, object]", value)  # a mapping's key type does not vary with its values
    if not isinstance(value, str):
        return {}
    try:
        parsed: object = json.loads(value)
    except ValueError:
        try:
            with warnings.catch_warnings():
                # Escapes that Python does not know are read as they are.
                warnings.simplefilter("ignore")
                parsed = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            return {}
    return cast("Mapping[object, object]", parsed) if isinstance(parsed, dict) else {}


def read_output(value: Json) -> str:
    """Read an output: the content of an envelope, else the text. Wart: 0, false and null in an envelope are no output."""
    try:
        # Typed Any by json; JSON by its contract.
        parsed = cast("Json", json.loads(value)) if isinstance(value, str) else value
    except ValueError:
        parsed = value
    text = value if isinstance(value, str) else str(value)
    found = parsed.get(_ENVELOPE, "") if isinstance(parsed, dict) else text
    return str(found) if found else ""


def _id(attributes: JsonObject) -> str | None:
    value = attributes.get(_TOOL_ID)
    return None if value is None else str(value)


def made_calls(trajectory: Trajectory, keys: Iterable[str | None], *, with_outputs: bool = False) -> list[LiveCall]:
    """Take over the calls; unparsable arguments are none. Ids other than UiPath's tool ids count only among the expected `keys`."""
    known = frozenset(keys)
    calls: list[LiveCall] = []
    for call in trajectory.calls:
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        args = cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {}  # JSON is made of objects
        own_id = call.call_id if call.call_id in known else None
        output = _made_output(call.result) if with_outputs else ""
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
    case_shapes: ClassVar[tuple[str, ...]] = ("spans",)
    looks_at_calls: ClassVar[bool] = True

    name: str = ""
    description: str = ""
    default_evaluation_criteria: CriteriaT | None = None

    @property
    def expected_shapes(self) -> tuple[str, ...]:
        """Return the keys of a case's `expected` that UiPath reads as they are."""
        return tuple(self.criteria_type().model_fields)

    @property
    def needs_reference(self) -> bool:
        """Return whether a criterion has to give something to compare with."""
        return self.default_evaluation_criteria is None

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        criteria = self.default_evaluation_criteria if expected is None else self.criteria_of(expected)
        verdict: Judging
        if criteria is None:
            verdict = NotEvaluated(reason="no_reference", explanation="nothing is given to compare with")
        elif isinstance(criteria, Errored):
            verdict = criteria
        elif trajectory.hidden_turns and self.looks_at_calls:
            verdict = hidden_calls(trajectory)
        else:
            verdict = self.judged(criteria, trajectory)
        yield None, verdict.outcome() if isinstance(verdict, Verdict) else verdict

    def score_case(self, expected: JsonObject, actual: JsonObject) -> CaseOutcome:
        """Score a case as it was written, with UiPath's own details."""
        try:
            criteria = None if expected else self.default_evaluation_criteria
            verdict = self.judged_as_written(criteria or self.criteria_type().model_validate(expected), actual)
        except ValidationError as error:
            return CaseOutcome(outcome=Errored(error_type="validation", message=_refusals(error)))
        except (ValueError, KeyError, RecursionError, MemoryError, OverflowError) as error:
            # Errors that UiPath's own code raises here; it makes an error result of them.
            return CaseOutcome(outcome=Errored(error_type=type(error).__name__, message=str(error)))
        if not isinstance(verdict, Verdict):
            return CaseOutcome(outcome=verdict)
        details: Json = verdict.details()
        return CaseOutcome(outcome=verdict.outcome(), original={"details": details})

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

    @abstractmethod
    def judged_as_written(self, criteria: CriteriaT, actual: JsonObject) -> Judging:
        """Judge the calls or the output of a case."""


# By pydantic's name of a problem, the kind of value that is accepted.
_ACCEPTED = {
    "string_type": "text",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "too_long": "a list of a comparator and a number",
    "list_type": "a list",
    "tuple_type": "a list of a comparator and a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "missing": "given",
}


def _refusals(error: ValidationError) -> str:
    refused: dict[str, tuple[str, list[str]]] = {}
    for problem in error.errors():
        # Of a field that takes several kinds each has a problem of its own, named at the end of the place.
        steps = [str(step) for step in problem["loc"] if step not in ("str", "dict[str,any]")]
        found = "missing" if problem["type"] == "missing" else kind_of(cast("Json", problem["input"]))
        refused.setdefault(".".join(steps), (found, []))[1].append(_ACCEPTED.get(problem["type"], "of another kind"))
    return "; ".join(
        f"UiPath refuses `{place}`, which is {found}: it must be {' or '.join(accepted)}"
        for place, (found, accepted) in refused.items()
    )


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
