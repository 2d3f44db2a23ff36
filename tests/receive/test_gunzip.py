import gzip
import zlib
from collections.abc import Callable
from functools import partial

import pytest

from tests.rows import each_row
from toolgauge.receive import otlp_handler
from toolgauge.receive.otlp_handler import BrokenBodyError, TooLargeError, Unpack, zstd


def whole(pieces: Unpack, body: bytes, limit: int) -> bytes:
    return b"".join(pieces(body, limit))


gunzip, inflate, unzstd = (
    partial(whole, pieces) for pieces in (otlp_handler.gunzip, otlp_handler.inflate, otlp_handler.unzstd)
)


def test_body_of_exactly_the_limit_passes_and_one_more_byte_does_not_also_in_several_members():
    for body in (gzip.compress(b"one two"), gzip.compress(b"one ") + gzip.compress(b"two")):
        assert gunzip(body, 7) == b"one two"
        with pytest.raises(TooLargeError):
            gunzip(body, 6)


@each_row(
    "body",
    [
        *(gzip.compress(b"some bytes that are compressed")[:cut] for cut in (1, 5, 9, 12, 20)),
        gzip.compress(b"") * 5000,
        b"\x0a\x00\x0a\x00",
        gzip.compress(b"fine") + b"garbage",
    ],
    ids=["1", "5", "9", "12", "20", "empty members", "no gzip", "garbage behind it"],
)
def test_gzip_that_is_cut_short_or_no_gzip_is_broken(body: bytes):
    with pytest.raises(BrokenBodyError):
        gunzip(body, 1000)


def test_zlib_body_is_bounded_too():
    assert inflate(zlib.compress(b"x" * 10), 10) == b"x" * 10
    with pytest.raises(TooLargeError):
        inflate(zlib.compress(b"x" * 11), 10)
    with pytest.raises(BrokenBodyError):
        inflate(zlib.compress(b"x") + b"more", 10)


def test_deflate_without_the_header_of_zlib_is_read_and_bounded():
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    raw = packer.compress(b"some bytes" * 9) + packer.flush()
    assert inflate(raw, 90) == b"some bytes" * 9
    with pytest.raises(TooLargeError):
        inflate(raw, 89)
    with pytest.raises(BrokenBodyError):
        inflate(raw + b"more", 90)


def streamed(body: bytes) -> bytes:
    """Compress as a writer does that does not know how much will come: the frame declares no size."""
    compressor = zstd.ZstdCompressor()
    return compressor.compress(body) + compressor.flush()


def with_window(log: int) -> bytes:
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: log})
    return compressor.compress(b"some bytes") + compressor.flush()


@pytest.mark.parametrize("compress", [zstd.compress, streamed])
def test_zstd_body_of_exactly_the_limit_passes_and_one_more_byte_does_not(compress: Callable[[bytes], bytes]):
    assert unzstd(compress(b"x" * 1000), 1000) == b"x" * 1000
    with pytest.raises(TooLargeError):
        unzstd(compress(b"x" * 1001), 1000)


def test_zstd_frames_that_follow_each_other_are_joined_and_stay_within_the_limit():
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0any"
    frames = zstd.compress(b"one ") + skippable + streamed(b"two")
    assert unzstd(frames, 7) == b"one two"
    with pytest.raises(TooLargeError):
        unzstd(frames, 6)
    with pytest.raises(BrokenBodyError):
        unzstd(zstd.compress(b"") * 5000, 1000)


@each_row("body", [zstd.compress(b"some bytes")[:-1], zstd.compress(b"some bytes")[:3], b"\x0a\x00\x0a\x00",
                                  zstd.compress(b"fine") + b"garbage", gzip.compress(b"another format", mtime=0)])  # fmt: skip
def test_what_is_no_whole_zstd_is_broken(body: bytes):
    with pytest.raises(BrokenBodyError):
        unzstd(body, 1000)


def test_zstd_window_that_takes_more_memory_than_any_exporter_needs_is_refused():
    assert unzstd(with_window(25), 1000) == b"some bytes"
    with pytest.raises(BrokenBodyError):
        unzstd(with_window(26), 1000)
