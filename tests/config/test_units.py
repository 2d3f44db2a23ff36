"""Durations, sizes and addresses, there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import each_row
from toolgauge.settings import UnitError, duration_ns, duration_text, size_bytes, size_text, split_address


@each_row(
    ("text", "nanoseconds"),
    [
        ("10s", 10_000_000_000),
        ("200ms", 200_000_000),
        ("15m", 900_000_000_000),
        ("4h", 14_400_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1.5s", 1_500_000_000),
        ("7us", 7_000),
        ("9ns", 9),
        ("0", 0),
        (0, 0),
    ],
)
def test_a_duration_is_read(text: object, nanoseconds: int):
    assert duration_ns(text) == nanoseconds


@each_row(
    ("text", "size"),
    [
        ("64MiB", 67_108_864),
        ("64 MiB", 67_108_864),
        ("1.5KiB", 1536),
        ("1kB", 1000),
        ("2GB", 2 * 10**9),
        ("5B", 5),
        (0, 0),
        ("0", 0),
    ],
)
def test_a_size_is_read(text: object, size: int):
    assert size_bytes(text) == size


@each_row(
    ("number", "hint"),
    [(64, "write `64MiB`?"), ("64", "write `64MiB`?"), (20971520, "write `20MiB`?"), (100_000, "write `100000B`?")],
)
def test_a_number_of_bytes_without_a_unit_is_refused_with_the_size_that_was_meant(number: object, hint: str):
    with pytest.raises(UnitError, match=r"must be a size with a unit, such as `64MiB`, `512KiB` or `1000B`") as caught:
        size_bytes(number)
    assert caught.value.hint == hint


@given(st.integers(min_value=0, max_value=10**17))
def test_a_duration_survives_being_written(duration: int):
    assert duration_ns(duration_text(duration)) == duration


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_survives_being_written(size: int):
    assert size_bytes(size_text(size)) == size


@each_row(
    "endpoint",
    [
        "localhost",
        "localhost:",
        "localhost:http",
        "localhost:65536",
        "localhost:70000",
        "localhost:-1",
        "::1:4317",
        "",
        "http://a:4317",
        "a:٣",
    ],
)
def test_endpoint_of_another_form_is_refused(endpoint: str):
    with pytest.raises(ValueError, match="must be `host:port`"):
        split_address(endpoint)
