"""Whatever arrives on either side of the wire is read in bounds, or refused with the exceptions that are caught."""

import contextlib
import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgauge.receive.otlp_handler import TooLargeError, gunzip, inflate
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


@given(endpoint=st.text(max_size=30))
def test_random_endpoint_raises_only_a_value_error(endpoint: str):
    with contextlib.suppress(ValueError):
        assert 0 <= split_address(endpoint)[1] <= 65535
