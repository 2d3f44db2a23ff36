"""JSONL files of references: one line a case, with the calls that are expected in it.

`{"case": "refund-17", "expected": [...]}`, or `expected_turns` with one list a user turn; `expected_output`, the
agent's final answer, beside them or alone. The same case twice is an error: whichever line won, somebody's scores would
be wrong without a trace.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from toolgauge.config.expected import ExpectedItems, expected_answer, expected_of
from toolgauge.config.nodes import Place, plain, written
from toolgauge.config.problems import Problem, Wording, problems_of
from toolgauge.model.expected import Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The references of one file. `key` is the attribute of the trace that holds the case."""

    file: Path
    key: str
    cases: Mapping[str, Expected]


def _case(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    case: Annotated[str, Field(min_length=1), BeforeValidator(_case)]
    expected: ExpectedItems | None = None
    expected_turns: tuple[ExpectedItems, ...] | None = None
    expected_output: JsonValue = None


def read_references(text: bytes, source: str) -> tuple[Mapping[str, Expected], tuple[Problem, ...]]:
    """Read all cases of a file, and say what is wrong with file and line."""
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


def _lines(text: bytes, source: str, problems: list[Problem]) -> Iterator[tuple[Place, _Line]]:
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
            yield place, _Line.model_validate(plain(node))
        except ValidationError as error:
            problems.extend(problems_of(error, node, _Line, Wording(owner=" of a reference")))
