"""A disk that hangs under the journal: senders get a retryable answer, health has the cause, and the process can end."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.state.support import left
from tests.wire.support import IN_TEST, LISTEN, recorded
from toolgauge.config.load import load
from toolgauge.model.delivery import Accepted, Answer, Refused
from toolgauge.service import watching
from toolgauge.service.service import Service
from toolgauge.state import journal, journal_rows, store
from toolgauge.state.journal_rows import Group, Sizes

(RUN,) = recorded("pydantic-ai", "tool_error")
DOES_NOT_ANSWER = "the disk of the journal does not answer"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Generator[threading.Event]:
    """While it is set, writes to the journal hang."""
    write, hangs, answers = journal_rows.write, threading.Event(), threading.Event()
    for module, name in ((journal, "_STALLED_AFTER_S"), (watching, "_SAVE_WITHIN_S"), (store, "_CLOSE_WITHIN_S")):
        monkeypatch.setattr(module, name, 0.2)
    monkeypatch.setattr(journal, "_COMMIT_WITHIN_S", 1.0)

    def slow_write(connection: sqlite3.Connection, group: Group) -> Sizes:
        while hangs.is_set() and not answers.wait(0.02):
            pass
        return write(connection, group)

    monkeypatch.setattr(journal_rows, "write", slow_write)
    yield hangs
    answers.set()


async def serving(folder: Path) -> Service:
    service = Service(load((), (*LISTEN, *IN_TEST, f"state.directory={folder}"), {}), ())
    await service.start()
    return service


async def send(service: Service) -> Answer:
    # Before the mend it waits for as long as the disk does.
    async with asyncio.timeout(10):
        return await service.intake.consume("traces", RUN, None)


def health(service: Service) -> tuple[str, str | None]:
    found = service.health.components()["extension:journal"]
    return found.status, found.error


async def test_requests_are_refused_until_the_disk_answers_again(tmp_path: Path, hanging: threading.Event):
    service = await serving(tmp_path)
    assert await send(service) == Accepted()
    hanging.set()
    for _ in range(2):
        assert await send(service) == Refused(DOES_NOT_ANSWER)
    assert health(service) == ("StatusRecoverableError", DOES_NOT_ANSWER)
    assert service.metrics.spans.value(("refused", "journal_stalled", "")) == 6
    hanging.clear()
    while health(service)[0] != "StatusOK":
        await asyncio.sleep(0.05)
    assert await send(service) == Accepted()
    await service.stop()
    # What was refused is no longer there.
    assert len(left(tmp_path)) == 2


async def test_the_process_ends_while_the_disk_hangs(tmp_path: Path, hanging: threading.Event):
    service = await serving(tmp_path)
    hanging.set()
    await send(service)
    began_s = time.monotonic()
    async with asyncio.timeout(30):
        await service.stop()
    assert time.monotonic() - began_s < 15
