import asyncio
import gzip
import random
import zlib

import pytest

from tests.receive.fakes import gzipped, post, receiving
from toolgauge.receive.otlp_handler import BrokenBodyError, TooLargeError, gunzip, inflate


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


async def test_large_compressed_bodies_arrive_in_parallel():
    chance = random.Random(3)  # noqa: S311 - not for secrets
    bodies = [chance.randbytes(300_000) for _ in range(4)]
    async with receiving() as receivers:
        replies = await asyncio.gather(
            *(post(receivers.http.port, gzipped(body), Content_Encoding="gzip") for body in bodies)
        )
        broken = await post(receivers.http.port, gzipped(bodies[0])[:-9], Content_Encoding="gzip")
    assert [reply.status for reply in replies] == [200] * 4
    assert broken.status == 400
    assert sorted(receivers.consumer.taken) == sorted(("traces", body) for body in bodies)


@pytest.mark.parametrize("size", [(4 << 20) - 1, 4 << 20, (4 << 20) + 1, 8 << 20, (9 << 20) + 17])
@pytest.mark.parametrize("level", [0, 1])
def test_large_bodies_are_decompressed_whole(size: int, level: int):
    body = random.Random(size).randbytes(size)  # noqa: S311 - bytes that do not compress
    assert gunzip(gzip.compress(body, level), size) == body
    assert inflate(zlib.compress(body, level), size) == body
    with pytest.raises(BrokenBodyError):
        gunzip(gzip.compress(body, level)[:-1], size)
