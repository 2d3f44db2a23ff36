import gzip
import zlib

import pytest

from toolgauge.receive.gunzip import BrokenBodyError, TooLargeError, gunzip, inflate


def test_body_of_exactly_the_limit_passes_and_one_more_byte_does_not():
    assert gunzip(gzip.compress(b"x" * 1000), 1000) == b"x" * 1000
    with pytest.raises(TooLargeError):
        gunzip(gzip.compress(b"x" * 1001), 1000)


def test_members_that_follow_each_other_are_joined():
    assert gunzip(gzip.compress(b"one ") + gzip.compress(b"two"), 7) == b"one two"


def test_members_together_stay_within_the_limit():
    with pytest.raises(TooLargeError):
        gunzip(gzip.compress(b"one ") + gzip.compress(b"two"), 6)


def test_thousands_of_empty_members_are_refused():
    with pytest.raises(BrokenBodyError):
        gunzip(gzip.compress(b"") * 5000, 1000)


@pytest.mark.parametrize("cut", [1, 5, 9, 12, 20])
def test_gzip_cut_short_is_broken(cut: int):
    with pytest.raises(BrokenBodyError):
        gunzip(gzip.compress(b"some bytes that are compressed")[:cut], 1000)


def test_bytes_that_are_no_gzip_are_broken():
    with pytest.raises(BrokenBodyError):
        gunzip(b"\x0a\x00\x0a\x00", 1000)


def test_garbage_behind_gzip_is_broken():
    with pytest.raises(BrokenBodyError):
        gunzip(gzip.compress(b"fine") + b"garbage", 1000)


def test_zlib_body_is_bounded_too():
    assert inflate(zlib.compress(b"x" * 10), 10) == b"x" * 10
    with pytest.raises(TooLargeError):
        inflate(zlib.compress(b"x" * 11), 10)
    with pytest.raises(BrokenBodyError):
        inflate(zlib.compress(b"x") + b"more", 10)
