"""The common part of UiPath's evaluators: parameters, criteria, verdicts, and calls as UiPath reads them.

Live, a reference comes from the criterion's expected calls, or in UiPath's own words from `default_evaluation_criteria`.
"""

import ast
import json
import re
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast, get_args

from msgspec import Struct
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.plain_calls import OneOutcome
from toolgauge.score.selection import hidden_calls

_MAX_DIFFERENCES = 20
_ENVELOPE = "content"
_DISALLOWED = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH = 64


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


Judging = Verdict | NotEvaluated | Errored


class UiPathEvaluator(OneOutcome, Generic[CriteriaT]):
    """The parameters that all of them share; `name` and `description` change nothing."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

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

    def outcome_of(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:
        """Judge a trajectory, and leave the details out."""
        found = self._verdict(trajectory, expected)
        if not isinstance(found, Verdict):
            return found
        return Scored(found.value, found.explanation, found.parts, found.differences[:_MAX_DIFFERENCES])

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
        return cast("type[CriteriaT]", kinds[0])  # pydantic has put the class in place of the variable

    @abstractmethod
    def criteria_of(self, expected: Expected) -> CriteriaT | Errored | None:
        """Write the expectations of a criterion in UiPath's words."""

    @abstractmethod
    def judged(self, criteria: CriteriaT, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""


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


def _output(result: Content, *, is_raw: bool) -> str:
    """Read an output: the content of an envelope, else the text. Wart: 0, false and null in an envelope count as nothing."""
    if isinstance(result, Unparsed):
        return result.text
    if not isinstance(result, Recorded):
        return ""
    value = envelope = result.value
    if is_raw and isinstance(value, str):
        with suppress(ValueError):  # a text without an envelope
            # Typed Any by json; JSON by its contract.
            envelope = cast("Json", json.loads(value))
    if isinstance(envelope, dict):
        found = envelope.get(_ENVELOPE, "")
        return str(found) if found else ""
    if isinstance(value, str):
        return value
    # Live, any result but an object is compared as its text.
    return str(value) if is_raw else json.dumps(value, ensure_ascii=False)


def made_calls(trajectory: Trajectory, keys: Iterable[str | None], *, with_outputs: bool = False) -> list[LiveCall]:
    """Take over the calls, without unparsable arguments; ids other than UiPath's tool ids count only among the expected `keys`."""
    known = frozenset(keys)
    # Spans of a case come as they are written.
    is_raw = trajectory.case_shape == "spans"
    calls: list[LiveCall] = []
    for call in trajectory.calls:
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        found = cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {}  # JSON is made of objects
        args = _read_arguments(arguments) if is_raw else found
        own_id = call.call_id if call.call_id in known else None
        output = _output(call.result, is_raw=is_raw) if with_outputs else ""
        calls.append(LiveCall(call.name, args, own_id if call.tool_id is None else call.tool_id, output))
    return calls
