"""Dates and times: the forms that are read, which are equal, and what is none."""

from tests.rows import each_row
from toolgauge.score.equality import moment
from toolgauge.score.rules import offset


@each_row(
    ("first", "second"),
    [
        ("2025-01-31", "20250131"),
        ("2025-01-31T09:30", "2025-01-31 09:30:00"),
        ("2025-01-31T09:30:15", "20250131t093015"),
        ("2025-01-31T09:30:15.250", "2025-01-31T09:30:15,25"),
        ("2025-01-31T09:30Z", "2025-01-31T11:30+02:00"),
        ("2025-01-31T23:30-02", "2025-02-01T01:30Z"),
        ("2025-01-31T24:00:00", "2025-02-01T00:00"),
        ("2025-01-31T09:30Z", "2025-01-31T09:30-00:00"),
        ("09:30", "09:30:00.0"),
    ],
)
def test_the_same_moment_is_equal_however_it_is_written(first: str, second: str):
    assert moment(first) is not None
    assert moment(first) == moment(second)


@each_row(
    ("first", "second"),
    [
        ("2025-01-31", "2025-01-31T00:00"),
        ("2025-01-31T09:30", "2025-01-31T09:30Z"),
        ("2025-01-31T09:30Z", "2025-01-31T09:30+01:00"),
        ("2025-01-31T09:30:15.25", "2025-01-31T09:30:15.2500001"),
        ("09:30", "2025-01-31T09:30"),
    ],
)
def test_different_moments_and_kinds_of_moments_are_not_equal(first: str, second: str):
    assert moment(first) is not None
    assert moment(second) is not None
    assert moment(first) != moment(second)


def test_a_zone_may_be_given_for_what_is_written_without_one():
    assert moment("2025-01-31T11:30", zone=7200) == moment("2025-01-31T09:30Z")
    assert moment("2025-01-31T09:30Z", zone=7200) == moment("2025-01-31T09:30Z")
    assert moment("2025-01-31", zone=7200) == moment("2025-01-31")


def test_zones_are_read_as_seconds():
    assert [offset(text) for text in ("Z", "+02:00", "-0530", "+14")] == [0, 7200, -19800, 50400]
    assert [offset(text) for text in ("", "Europe/Berlin", "+24:00", "+02:60", "2")] == [None] * 5
