import asyncio
import gzip

import pytest

from toolgauge.export.sender import compressed

KIB = 1024


@pytest.mark.parametrize("size", [0, 1, 256 * KIB, 256 * KIB + 1, 3_000_000])
async def test_what_is_compressed_is_read_back_equal(size: int):
    body = (b"the quick brown fox " * (size // 20 + 1))[:size]
    assert gzip.decompress(await compressed(body)) == body


async def test_a_large_body_is_compressed_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch):
    def no_thread(*_values: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", no_thread)
    body = bytes(300 * KIB)
    assert gzip.decompress(await compressed(body)) == body
