"""The exporter keeps toolgauge's contract and writes what it is given."""

import asyncio
from pathlib import Path

from toolgauge_exporter_folder import ToFolder

from toolgauge.testing.exporters import check_exporter


def test_the_contract_is_kept(tmp_path: Path):
    asyncio.run(check_exporter(lambda: ToFolder(ToFolder.Settings(path=tmp_path))))


def test_requests_are_files(tmp_path: Path):
    exporter = ToFolder(ToFolder.Settings(path=tmp_path / "new"))

    async def write() -> None:
        await exporter.start()
        await exporter.send("traces", b"one")
        await exporter.send("logs", b"two")

    asyncio.run(write())
    assert {file.name: file.read_bytes() for file in (tmp_path / "new").iterdir()} == {
        "000001.otlp.pb": b"one",
        "000002.logs.otlp.pb": b"two",
    }
