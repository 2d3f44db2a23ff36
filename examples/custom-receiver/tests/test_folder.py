"""The receiver keeps toolgauge's contract and deletes what was accepted."""

import asyncio
from itertools import count
from pathlib import Path

from toolgauge_receiver_folder import FromFolder

from toolgauge.testing.receivers import RecordingConsumer, check_receiver

NUMBERS = count()


def test_the_contract_is_kept(tmp_path: Path):
    settings = FromFolder.Settings(path=tmp_path, interval_s=0.01)

    async def drop(_receiver: FromFolder) -> None:
        (tmp_path / f"{next(NUMBERS)}.otlp.pb").write_bytes(b"\x0a\x00")

    asyncio.run(check_receiver(lambda consumer: FromFolder(settings, consumer), drop))


def test_an_accepted_file_is_deleted(tmp_path: Path):
    (tmp_path / "one.otlp.pb").write_bytes(b"request")

    async def receive() -> list[tuple[str, bytes]]:
        consumer = RecordingConsumer()
        receiver = FromFolder(FromFolder.Settings(path=tmp_path), consumer)
        await receiver.start()
        await consumer.another()
        await receiver.stop(1)
        return [*consumer.taken]

    assert asyncio.run(receive()) == [("traces", b"request")]
