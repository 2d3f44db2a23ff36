"""The page of producers has, for each framework, how much of its captured runs is really rebuilt, and its badge; and values are right."""

from collections.abc import Sequence

import msgspec
import pytest

from tests.captures import CORPUS, switches
from tests.corpus_values import NEEDED, SILENT, Compared, shares_of, values_of
from tests.recovery_table import BADGES, COLUMNS, Cell, Truth, badge, row_of, table, written

Rows = dict[str, tuple[Sequence[Truth], dict[str, Cell]]]


@pytest.fixture(scope="module")
def rebuilt() -> tuple[Rows, list[Compared]]:
    """Read each producer once, for the table and for the values."""
    rows: Rows = {}
    values: list[Compared] = []
    for folder in sorted(folder for folder in CORPUS.iterdir() if folder.is_dir()):
        rows[folder.name] = row_of(folder)
        values += values_of(folder) if folder.name not in SILENT else ()
    return rows, values


@pytest.fixture
def found(rebuilt: tuple[Rows, list[Compared]]) -> Rows:
    return rebuilt[0]


def test_values_of_captured_calls_are_those_of_the_tools(rebuilt: tuple[Rows, list[Compared]]):
    shares, wrong = shares_of(rebuilt[1])
    assert set(shares) == {"results", "failed", "messages", "kinds", "offers", "prompts", "replies"}
    assert {column: share for column, share in shares.items() if share < NEEDED} == {}, wrong


def test_the_table_and_the_badges_are_made_from_the_captures(found: Rows):
    assert written() == table(found), "run `python -m tests.recovery_table --write`"
    drawn = {file.stem: file.read_text() for file in BADGES.iterdir()}
    assert drawn == {name: badge(row) for name, (_, row) in found.items()}


def test_what_a_producer_does_not_record_is_not_in_its_captures(found: Rows):
    """The truth of a capture knows which arguments and results are anywhere in it."""
    for name, (truths, row) in found.items():
        counted = (one.scenario for one in truths if one.scenario not in switches(name).off)
        files = [CORPUS / name / f"{scenario}.truth.json" for scenario in counted]
        calls = [
            call
            for file in files
            for trace in msgspec.json.decode(file.read_bytes())["traces"]
            for call in trace["tool_calls"]
        ]
        for column, key in (("arguments", "arguments"), ("results", "result")):
            if row[column].word == "not recorded":
                assert not any(call["in_capture"].get(key) for call in calls), (name, column)


def test_a_badge_counts_the_columns_that_can_be_rebuilt():
    yes, no, empty = (Cell(right=right, absent=0, of=of) for right, of in ((2, 2), (0, 2), (0, 0)))
    row = dict(zip(COLUMNS, (yes, yes, yes, no, empty, yes), strict=True))
    assert ">4 of 5<" in badge(row)
