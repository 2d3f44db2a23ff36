"""What UiPath takes for a tool call: from spans as an offline case has them, and from a trajectory.

Offline, the raw text of a span is read as UiPath reads it. Live, the dialects have read it already, more safely, and the
difference is left to them: a tuple is a list there, and a key that is no text is written as one.
"""

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import ToolCall as MadeCall
from toolgauge.model.trajectory import Trajectory

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
    """A call of either side that nobody has to check and whose details nobody sees; a model takes five times as long."""

    name: str
    args: dict[str, object]
    id: str | None = None
    output: str = ""


AnyCall: TypeAlias = ToolCall | ToolOutput | LiveCall


def is_meant_by(made: AnyCall, expected: AnyCall) -> bool:
    """Tell whether a call that was made has the identity of an expected one."""
    if made.id is None:
        return sanitised(made.name) == sanitised(expected.name)
    return is_key_of(made, expected.name if expected.id is None else expected.id)


def is_key_of(made: AnyCall, key: str) -> bool:
    """Tell whether a call that was made is meant by an id or name."""
    # Wart: with an id on the call only the id decides, so that an expected plain name finds no such call.
    if made.id is not None:
        return key == made.id
    return key == made.name or sanitised(key) == sanitised(made.name)


def sanitised(name: str) -> str:
    """Write a name as UiPath's runtime does. Wart: `a.b` and `ab` become one name, `!!` and `??` none."""
    if len(name) <= _NAME_LENGTH and name.isascii() and name.isidentifier():
        return name
    return _DISALLOWED.sub("", "_".join(name.split()))[:_NAME_LENGTH]


def key_of(call: AnyCall) -> str:
    """Return the id of a call, else its name."""
    return call.name if call.id is None else call.id


# -- as a case has them ---------------------------------------------------------------------------------------------


def spans_of(actual: JsonObject) -> Iterator[JsonObject]:
    """Yield the attributes of the spans that count; raise `ValueError` when there are no spans as documented."""
    written = actual.get("spans")
    if not isinstance(written, list):
        raise ValueError("`spans` must be a list")
    for span in written:
        attributes = span.get("attributes") if isinstance(span, dict) else None
        if not isinstance(span, dict) or not isinstance(attributes, dict | None):
            raise ValueError("`spans` must be a list of objects with `attributes`")
        if attributes and attributes.get(_TOOL_NAME) and not attributes.get(_SYNTHESIZED):
            yield attributes


def written_calls(actual: JsonObject, *, with_arguments: bool) -> list[ToolCall]:
    """Read the calls; raises pydantic's error for arguments with a key that is no text."""
    return [
        ToolCall(
            name=str(attributes[_TOOL_NAME]),
            # Wart: a key of another kind than text is an error. The type says what has to be found out.
            args=cast("dict[str, object]", read_arguments(attributes.get(_INPUT, {}))) if with_arguments else {},
            id=_id(attributes),
        )
        for attributes in spans_of(actual)
    ]


def written_outputs(actual: JsonObject) -> list[ToolOutput]:
    """Read the outputs of the calls."""
    return [
        ToolOutput(
            name=str(attributes[_TOOL_NAME]), output=read_output(attributes.get(_OUTPUT, "")), id=_id(attributes)
        )
        for attributes in spans_of(actual)
    ]


def read_arguments(value: Json) -> Mapping[object, object]:
    """Read arguments as JSON, else as a Python literal. Wart: what is neither looks like no arguments."""
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
    found: Json
    if isinstance(value, str):
        found = _opened(value)
    elif isinstance(value, dict):
        found = value.get(_ENVELOPE, "")
    else:
        found = str(value)
    return str(found) if found else ""


def _opened(text: str) -> Json:
    try:
        parsed = cast("Json", json.loads(text))  # typed Any by json; JSON by its contract
    except ValueError:
        return text
    return parsed.get(_ENVELOPE, "") if isinstance(parsed, dict) else text


def _id(attributes: JsonObject) -> str | None:
    value = attributes.get(_TOOL_ID)
    return None if value is None else str(value)


# -- as a trajectory has them ---------------------------------------------------------------------------------------


def made_calls(trajectory: Trajectory, known_ids: Collection[str]) -> list[LiveCall]:
    """Take over the calls; what could not be parsed is no arguments. `known_ids` are what the reference speaks of."""
    calls: list[LiveCall] = []
    for call in trajectory.calls:
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        args = cast("dict[str, object]", arguments) if isinstance(arguments, dict) else {}  # JSON is made of objects
        calls.append(LiveCall(call.name, args, _made_id(call, known_ids)))
    return calls


def made_outputs(trajectory: Trajectory, known_ids: Collection[str]) -> list[LiveCall]:
    """Take over the calls with their results as UiPath writes them."""
    calls: list[LiveCall] = []
    for call in trajectory.calls:
        output = _made_output(call.result)
        calls.append(LiveCall(call.name, {}, _made_id(call, known_ids), output))
    return calls


def hidden_from(expected: Sequence[AnyCall], calls: Sequence[AnyCall], hidden: Sequence[bool]) -> str | None:
    """Name a call that could be an expected one and of which something was not recorded."""
    for call, is_hidden in zip(calls, hidden, strict=True):
        if not is_hidden:
            continue
        if any(is_meant_by(call, wanted) for wanted in expected):
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


def _made_id(call: MadeCall, known_ids: Collection[str]) -> str | None:
    """Return the id of the tool, else that of the call where the reference speaks of it.

    What UiPath calls an id is that of the tool; other producers' ids name one call, and nobody can expect those.
    """
    if call.tool_id is not None:
        return call.tool_id
    return call.call_id if call.call_id in known_ids else None
