"""One request of a recording keeps its bytes and its signal."""

import pytest

from toolgauge.model.delivery import Signal
from toolgauge.otlp.request import framed, signal_and_body


def test_a_request_of_spans_is_written_as_other_tools_write_it():
    assert framed("traces", b"\x0a\x00") == b"\x02\x0a\x00"


def test_the_size_of_a_long_request_takes_several_bytes():
    assert framed("traces", b"\x0a" * 300)[:3] == b"\xac\x02\x0a"


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
@pytest.mark.parametrize("body", [b"", b"\x0a\x00", b"\x7a\x04logs", b"\x7a\x06traces\x0a\x00"])
def test_each_request_is_read_as_it_was_written(signal: Signal, body: bytes):
    assert signal_and_body(framed(signal, body)[1:], "traces") == (signal, body)


def test_a_request_that_names_no_signal_is_of_the_one_that_is_expected():
    assert signal_and_body(b"\x0a\x00", "logs") == ("logs", b"\x0a\x00")
