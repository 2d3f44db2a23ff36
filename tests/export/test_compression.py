import asyncio
import gzip

import pytest

from toolgauge.export.http_sender import compressed

KIB = 1024


@pytest.mark.parametrize("size", [0, 1, 256 * KIB, 256 * KIB + 1, 3_000_000])
async def test_what_is_compressed_is_read_back_equal(size: int):
    body = (b"the quick brown fox " * (size // 20 + 1))[:size]
    assert gzip.decompress(await compressed(body)) == body


async def test_others_have_their_turn_while_a_large_body_is_compressed():
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await compressed(b"\0" * 4096 * KIB)
    task.cancel()
    assert turns >= 15
