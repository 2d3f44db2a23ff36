"""What detectors know is saved before regressions are announced, and comes back with the next start."""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar, cast

import pytest
from msgspec.structs import replace

from tests.watch.support import HOUR, START, Traffic, offered, scorecard, watcher
from toolgauge.export.emitter import Emitter
from toolgauge.export.webhooks import Webhooks
from toolgauge.model.delivery import Outgoing
from toolgauge.model.errors import StateError
from toolgauge.model.json import JsonObject
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.regressions import Regression, ToolDefinitionChange
from toolgauge.selfmetrics import SelfMetrics, WebhookMetrics
from toolgauge.service import watching as module
from toolgauge.service.process import Faults
from toolgauge.service.watching import Notifier, Watching
from toolgauge.state.store import StateStore
from toolgauge.watch.watcher import Watcher

STREAMS = {("default.tool_success", "r1"): "m1"}
_T = TypeVar("_T")


class MemoryStore(StateStore):
    def __init__(self) -> None:
        self.saved: dict[bytes, bytes] = {}
        self.happened: list[str] = []
        self.is_full = False
        self.removed = 0
        self.fault: Exception | None = None
        self.answers = threading.Event()
        self.answers.set()

    def load_watch(self) -> dict[bytes, bytes]:
        return dict(self.saved)

    def save_watch(self, changed: Mapping[bytes, bytes], removed: Collection[bytes] = ()) -> None:
        if self.is_full:
            raise StateError("the disk is full")
        if self.fault is not None:
            raise self.fault
        self.answers.wait(10)
        self.removed += len(removed)
        self.saved = {row: value for row, value in self.saved.items() if row not in removed} | dict(changed)
        self.happened.append("saved")


class Announcements:
    """An emitter and webhooks in one, which write their announcements to a store."""

    def __init__(self, store: MemoryStore | None) -> None:
        self._happened: list[str] = [] if store is None else store.happened

    def regressions(self, regressions: Sequence[Regression]) -> Sequence[Outgoing]:
        self._happened += [regression.phase for regression in regressions]
        return ()

    def tool_changes(self, changes: Sequence[ToolDefinitionChange]) -> Sequence[Outgoing]:
        self._happened += [change.kind for change in changes]
        return ()

    def count_tool_changes(self, changes: Sequence[ToolDefinitionChange], capped: int) -> None:
        self._happened.append(f"counted {len(changes)}, capped {capped}")

    def put(self, regressions: Sequence[Regression]) -> None:
        """Announce nothing: `regressions` has been called with them."""


def watching(watched: Watcher, store: MemoryStore | None, streams: Mapping[tuple[str, str], str] = STREAMS) -> Watching:
    metrics, announcements = SelfMetrics(MetricRegistry()), Announcements(store)
    return Watching(
        watched,
        metrics,
        store=store,
        streams=streams,
        emitter=cast("Emitter", announcements),
        webhooks=cast("Webhooks", announcements),
        put=lambda _outgoing: True,
        faults=Faults(metrics),
    )


async def test_an_incident_is_one_warning_also_over_a_restart(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    store, traffic = MemoryStore(), Traffic(watcher())
    traffic.send(300, every=20)
    first, second = watching(traffic.watcher, store), watching(watcher(), store)
    first.restore()
    first.start(here)
    traffic.send(60, every=2)
    for regression in traffic.regressions:
        first.regressed([regression])
    await first.stop()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert len({vars(record)["incident"] for record in caplog.records}) == 1
    second.restore()
    second.start(here)
    one, other = (replace(each, phase="ended") for each in traffic.regressions)
    second.regressed([one])
    second.regressed([other])
    await second.stop()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "INFO"]
    assert "is back at" in caplog.messages[-1]


async def test_changes_of_tools_are_counted_at_once_and_announced_when_they_are_saved():
    watched, store = watcher(), MemoryStore()
    guard = watching(watched, store)
    seen: list[ToolDefinitionChange] = []
    guard.on_tool_changes = seen.extend
    guard.start(here)
    for number, required in enumerate(([], ["id"]), 1):
        schema: JsonObject = {"properties": {"id": {"type": "string"}}, "required": [*required]}
        watched.observe(offered(number, ToolDefinition(name="find_order", parameters=schema)))
    watched.tick(START)
    await guard.stop()
    assert store.happened[:3] == ["counted 1, capped 0", "saved", "breaking"]
    assert [(change.tool, change.kind) for change in seen] == [("find_order", "breaking")]
    assert [row[:1] for row in store.saved if row.startswith(b"o")] == [b"o"]


async def test_a_worker_that_answers_no_question_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolgauge.service.watching._SAVE_EVERY_S", 0.01)
    guard, asked, is_given_up = watching(watcher(), MemoryStore()), asyncio.Event(), False

    async def on_worker(work: Callable[[], _T]) -> _T:
        if not is_given_up:
            asked.set()
            await asyncio.Event().wait()
        return work()

    guard.start(on_worker)
    await asked.wait()
    is_given_up = True
    async with asyncio.timeout(10):
        await guard.stop()


async def here(work: Callable[[], _T]) -> _T:
    return work()


def dropped(traffic: Traffic) -> Sequence[Regression]:
    traffic.send(300, every=20)
    traffic.send(60, every=2)
    return traffic.regressions


async def test_an_alarm_is_saved_before_it_is_announced():
    store, traffic = MemoryStore(), Traffic(watcher())
    one = watching(traffic.watcher, store)
    one.restore()
    one.start(here)
    one.regressed(dropped(traffic))
    await asyncio.sleep(0)
    await one.stop()
    assert store.happened[:3] == ["saved", "began", "began"]
    after = watching(watcher(), store)
    assert {each.stream.tool for each in after.restore()} == {"find_order", None}


@pytest.mark.parametrize("fault", [None, OSError("input/output error")])
async def test_what_cannot_be_saved_is_announced_and_saved_later(
    fault: Exception | None, caplog: pytest.LogCaptureFixture
):
    store, traffic = MemoryStore(), Traffic(watcher())
    one = watching(traffic.watcher, store)
    one.restore()
    one.start(here)
    store.is_full, store.fault = fault is None, fault
    one.regressed(dropped(traffic))
    while "began" not in store.happened:
        await asyncio.sleep(0)
    assert ("the disk is full" if fault is None else "OSError") in caplog.text
    assert not store.saved
    store.is_full, store.fault = False, None
    await one.stop()
    assert len(watching(watcher(), store).restore()) == 2


async def test_an_alarm_of_a_criterion_that_went_ends_with_the_next_start():
    store, traffic = MemoryStore(), Traffic(watcher())
    dropped(traffic)
    store.saved, _ = traffic.watcher.changes()
    after = watcher()
    assert not watching(after, store, streams={}).restore()
    assert [each.acknowledged for each in after.tick(traffic.now_ns)] == [True, True]


async def test_the_start_says_in_one_line_which_criteria_changed(caplog: pytest.LogCaptureFixture):
    store, traffic = MemoryStore(), Traffic(watcher())
    traffic.send(10, every=20)
    store.saved, _ = traffic.watcher.changes()
    watching(watcher(), store).restore()
    assert "changed" not in caplog.text
    watching(watcher(), store, streams={("default.tool_success", "r2"): "m2"}).restore()
    assert caplog.messages == ["1 criterion changed: 2 streams learn anew: default.tool_success"]


async def test_what_is_to_be_removed_takes_no_room_while_the_disk_is_full():
    store, watched = MemoryStore(), watcher()
    one = watching(watched, store)
    one.restore()
    one.start(here)
    store.is_full = True
    for number in range(100):
        card = scorecard(number, [("find_order", 1.0)], at_ns=START + number * HOUR, conversation=f"c-{number}")
        watched.observe(card)
        one.regressed(watched.tick(card.scored_at_ns + HOUR))
    store.is_full = False
    await one.stop()
    assert store.removed == 0
    assert len(store.saved) == 3


async def test_a_store_that_hangs_silences_no_alarm_and_keeps_nothing_from_ending(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_SAVE_WITHIN_S", 0.1)
    store, traffic = MemoryStore(), Traffic(watcher())
    one = watching(traffic.watcher, store)
    one.restore()
    one.start(here)
    store.answers.clear()
    one.regressed(dropped(traffic))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await one.stop()
    assert store.happened == ["began", "began"]
    store.answers.set()


class ToldWebhooks(Webhooks):
    def __init__(self) -> None:
        super().__init__((), None, WebhookMetrics(MetricRegistry()), user_agent="test")
        self.told: list[Notice] = []

    def notify(self, notices: Sequence[Notice]) -> None:
        self.told += notices


def test_a_failed_run_is_told_once_in_the_log_and_to_webhooks(caplog: pytest.LogCaptureFixture):
    webhooks = ToldWebhooks()
    notifier = Notifier(webhooks, lambda: START)
    failed = Notice(
        service="shop",
        agent=None,
        tool="refund\n",
        criterion="c",
        trace_id="a" * 32,
        explanation="x\ny",
        at_ns=START,
        is_open=True,
    )
    notifier.add([failed, failed])
    notifier.add([failed])
    assert webhooks.told == [failed]
    assert caplog.messages == [
        f"`c` of `refund\ufffd` of service `shop` fails while the run goes on (trace {'a' * 32})"
    ]
