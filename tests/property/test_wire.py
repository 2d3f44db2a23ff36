"""Whatever arrives on either side of the wire is read in bounds, or refused with the exceptions that are caught."""

import contextlib
import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgauge.export.sender import delivered, retry_after_s
from toolgauge.receive.unpack import BrokenBodyError, TooLargeError, gunzip, inflate
from toolgauge.settings import split_address


@given(body=st.binary(max_size=5000), spare=st.integers(min_value=0, max_value=10))
def test_compressed_body_within_the_limit_comes_back(body: bytes, spare: int):
    limit = len(body) + spare
    assert b"".join(gunzip(gzip.compress(body, mtime=0), limit)) == body
    assert b"".join(inflate(zlib.compress(body), limit)) == body


@given(body=st.binary(min_size=1, max_size=5000))
def test_compressed_body_over_the_limit_is_too_large(body: bytes):
    with pytest.raises(TooLargeError):
        list(gunzip(gzip.compress(body, mtime=0), len(body) - 1))
    with pytest.raises(TooLargeError):
        list(inflate(zlib.compress(body), len(body) - 1))


@given(body=st.binary(max_size=300), at=st.integers(min_value=0), byte=st.integers(min_value=0, max_value=255))
def test_changed_or_random_body_raises_only_what_is_caught(body: bytes, at: int, byte: int):
    changed = bytearray(gzip.compress(body, mtime=0))
    changed[at % len(changed)] = byte
    for broken in (body, bytes(changed)):
        with contextlib.suppress(BrokenBodyError, TooLargeError):
            assert sum(map(len, gunzip(broken, 100))) <= 100
        with contextlib.suppress(BrokenBodyError, TooLargeError):
            assert sum(map(len, inflate(broken, 100))) <= 100


@given(response=st.binary(max_size=200))
def test_random_answer_of_a_destination_never_raises(response: bytes):
    for signal in ("traces", "metrics", "logs"):
        assert delivered(signal, response).rejected >= 0


@given(value=st.text(max_size=40) | st.from_regex(r"\A\w{3}, \d+ \w{3} \d+ \d+:\d+:\d+ (GMT|[+-]\d{1,6})\Z"))
def test_random_retry_after_never_raises(value: str):
    wait_s = retry_after_s(value, 1_700_000_000.0)
    assert wait_s is None or wait_s >= 0


@given(endpoint=st.text(max_size=30))
def test_random_endpoint_raises_only_a_value_error(endpoint: str):
    with contextlib.suppress(ValueError):
        assert 0 <= split_address(endpoint)[1] <= 65535
