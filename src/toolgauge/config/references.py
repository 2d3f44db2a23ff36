"""Expected calls as people write them, in criteria and in reference files (JSONL), and as evaluators get them.

A list inside the list is a group of calls without an order: `[search, [book, pay], confirm]`. A reference file has one line a
case: `{"case": "refund-17", "expected": [...]}`, `expected_turns` or `expected_output`. The same case twice is an error.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, cast

import msgspec
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationError,
    model_validator,
)

from toolgauge.config.problems import Place, Problem, Wording, plain, problems_of, written
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.settings import also_written_as

_MOST = 1_000_000


def _range(value: object) -> object:
    """Read `3` as exactly three, `[0, 3]` as a range."""
    bounds = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value, value)
    if len(bounds) != 2 or not all(isinstance(bound, int) and not isinstance(bound, bool) for bound in bounds):
        raise ValueError("must be a whole number or `[least, most]`")
    low, high = cast("Sequence[int]", bounds)
    if not 0 <= low <= high <= _MOST or high == 0:
        raise ValueError(f"must be 1 to {_MOST}, or `[least, most]` with least not above most")
    return low, high


class ExpectedItem(BaseModel):
    """One expected call. A text alone is its name."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", json_schema_extra=also_written_as({"type": "string", "minLength": 1})
    )

    name: Annotated[str, Field(min_length=1)]
    id: str | None = None
    args: dict[str, JsonValue] | None = None
    output: JsonValue = None
    optional: bool = False
    repeat: Annotated[tuple[int, int], BeforeValidator(_range, json_schema_input_type=int | tuple[int, int])] = (1, 1)

    @model_validator(mode="before")
    @classmethod
    def _text_is_a_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    def call(self, group: int | None = None) -> ExpectedCall:
        """Make what evaluators compare with; an `output` of null was written and differs from none."""
        return ExpectedCall(
            name=self.name,
            call_id=self.id,
            args=self.args,
            output=ExpectedOutput(value=self.output) if "output" in self.model_fields_set else None,
            optional=self.optional,
            repeat=self.repeat,
            group=group,
        )


def _calls_only(value: object) -> object:
    """Take a group whose items can be calls."""
    if not isinstance(value, list | tuple):
        return value
    if not value:
        raise ValueError("is an empty group: a list inside the list holds calls that have no order among themselves")
    items = cast("Sequence[object]", value)  # narrowed from object, whose items have no type
    if any(isinstance(item, list | tuple) for item in items):
        raise ValueError("holds a list: it is a group itself, and groups hold calls only")
    return items


_Group: TypeAlias = Annotated[tuple[ExpectedItem, ...], BeforeValidator(_calls_only)]
_CallOrGroup: TypeAlias = Annotated[
    Annotated[ExpectedItem, Tag("a call")] | Annotated[_Group, Tag("a group")],
    Discriminator(lambda value: "a group" if isinstance(value, list | tuple) else "a call"),
]
ExpectedItems: TypeAlias = tuple[_CallOrGroup, ...]


def expected_of(
    calls: ExpectedItems | None, turns: tuple[ExpectedItems, ...] | None, answer: ExpectedOutput | None = None
) -> Expected | None:
    """Make the expected side of whichever was written; `None` when nothing was. An empty list stays an empty list."""
    if turns is not None:
        return Expected(turns=tuple(tuple(_calls(turn)) for turn in turns), per_turn=True, answer=answer)
    if calls is not None:
        return Expected(turns=(tuple(_calls(calls)),), answer=answer)
    return None if answer is None else Expected(turns=(), answer=answer)


def expected_answer(written: BaseModel) -> ExpectedOutput | None:
    """Read `expected_output` of a criterion or a reference line; a null that was written differs from none."""
    if "expected_output" not in written.model_fields_set:
        return None
    # The field is declared as JSON wherever there is one.
    return ExpectedOutput(value=cast("Json", getattr(written, "expected_output", None)))


def _calls(items: ExpectedItems) -> Iterator[ExpectedCall]:
    groups = 0
    for item in items:
        if isinstance(item, ExpectedItem):
            yield item.call()
            continue
        for member in item:
            yield member.call(group=groups)
        groups += 1


def expected_json(expected: Expected) -> Json:
    """Write the expected side with every default spelled out, for the revision."""
    turns: list[Json] = [[_call_json(call) for call in turn] for turn in expected.turns]
    answer: JsonObject = {} if expected.answer is None else {"answer": expected.answer.value}
    return {"per_turn": expected.per_turn, "turns": turns, **answer}


def _call_json(call: ExpectedCall) -> JsonObject:
    # Later keys are written only where they are given: criteria without them keep the revision that they had.
    later: JsonObject = {"id": call.call_id, "args": call.args, "group": call.group}
    given = {key: value for key, value in later.items() if value is not None}
    output: JsonObject = {} if call.output is None else {"output": call.output.value}
    return {"name": call.name, "optional": call.optional, "repeat": [*call.repeat], **given, **output}


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The references of one file. `key` is the attribute of the trace that holds the case."""

    file: Path
    key: str
    cases: Mapping[str, Expected]


class ReferenceLine(BaseModel):
    """One line of a reference file as a person writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: Annotated[
        str,
        Field(min_length=1),
        BeforeValidator(
            lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value,
            json_schema_input_type=str | int,
        ),
    ]
    expected: ExpectedItems | None = None
    expected_turns: tuple[ExpectedItems, ...] | None = None
    expected_output: JsonValue = None
    note: str | None = None  # For people; nothing is compared with it


def read_references(text: bytes, source: str) -> tuple[Mapping[str, Expected], tuple[Problem, ...]]:
    """Read all cases of a file, and list its problems with file and line."""
    cases: dict[str, Expected] = {}
    problems: list[Problem] = []
    first: dict[str, Place] = {}
    for place, line in _lines(text, source, problems):
        expected = expected_of(line.expected, line.expected_turns, expected_answer(line))
        if line.expected is not None and line.expected_turns is not None:
            problems.append(Problem(place, f"case `{line.case}` has both `expected` and `expected_turns`"))
        elif expected is None:
            allowed = "`expected`, `expected_turns` or `expected_output`"
            problems.append(Problem(place, f"case `{line.case}` needs {allowed}"))
        elif line.case in cases:
            problems.append(Problem(place, f"case `{line.case}` is given twice, first at {first[line.case]}"))
        else:
            cases[line.case] = expected
            first[line.case] = place
    return cases, tuple(problems)


def _lines(text: bytes, source: str, problems: list[Problem]) -> Iterator[tuple[Place, ReferenceLine]]:
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        place = Place(source, number)
        try:
            node = written(msgspec.json.decode(line), place)
        except (msgspec.DecodeError, UnicodeError) as error:
            problems.append(Problem(place, f"not valid JSON: {error}"))
            continue
        except RecursionError:
            problems.append(Problem(place, "the values are nested too deeply"))
            continue
        try:
            yield place, ReferenceLine.model_validate(plain(node))
        except ValidationError as error:
            problems.extend(problems_of(error, node, ReferenceLine, Wording(owner=" of a reference")))
