"""Whatever happens, the journal is empty when all is closed and delivered, and what was acknowledged has arrived."""

import random

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.rows import each_row
from tests.walk.support import SECOND, MemoryJournal, Walk
from tests.walk.test_recovery import close_all, requests, sent_on
from toolgauge.config.model import Defaults
from toolgauge.model.delivery import Accepted, Signal
from toolgauge.model.journal import JournalChange
from toolgauge.otlp.request import read_request
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.state.ledger import Ledger

RECORDED = tuple(
    requests(*recording)
    for recording in (
        ("pydantic-ai", "tool_error"),
        ("google-adk", "multi_turn"),
        ("langsmith-otel-langgraph", "session"),
    )
)
PLENTY = 1 << 30
# More kinds of events have more places.
EVENTS = (*["nothing"] * 70, *["room"] * 10, *["time"] * 10, *["crash"] * 4, *["memory"] * 3, *["leaf"] * 3)


class Lives:
    """Processes that go on with one journal, one after the other."""

    def __init__(self, choose: random.Random) -> None:
        self._choose = choose
        self._settings = (
            f"annotate={choose.choice(('both', 'hold', 'scorecard', 'off'))}",
            f"hold.timeout={choose.choice(('1s', '60s'))}",
            f"hold.max_bytes={choose.choice(('4KiB', '64MiB'))}",
            f"assemble.max_open={choose.choice((1, 3, 20_000))}",
        )
        of_conversations = default_criteria(Defaults(scope="conversation"))[:2]
        self._criteria = (*default_criteria(), *choose.choice(((), of_conversations)))
        self.journal = MemoryJournal()
        self.walks = [self._next()]
        self.acknowledged: set[bytes] = set()

    @property
    def walk(self) -> Walk:
        return self.walks[-1]

    @property
    def ledger(self) -> Ledger:
        return self.walk.bag.ledger

    def _next(self) -> Walk:
        return Walk(*self._settings, criteria=self._criteria, journal=self.journal)

    def send(self, signal: Signal, body: bytes) -> None:
        """Send a request as a service takes it: it may be refused, and may pass unread."""
        walk = self.walk
        request = read_request(signal, body, walk.now_ns)
        if walk.pipeline.admission.admit(request) != Accepted():
            return
        entry = self.ledger.new_entry(signal, body, walk.now_ns, own=False)
        self.journal.submit(JournalChange(appended=(entry,)))
        request = replace(request, entry=entry.id)
        if self._choose.random() > 0.05:
            walk.pipeline.process(request)
            walk.pipeline.egress.forward()
        elif not walk.pipeline.pass_unread(request, walk.now_ns):
            walk.pipeline.admission.withdraw(request)
            self.ledger.end_reading(entry.id)
            return
        if signal == "traces":
            (group,) = ExportTraceServiceRequest.FromString(body).resource_spans
            self.acknowledged.add(group.scope_spans[0].spans[0].span_id)

    def happen(self, event: str) -> None:
        choose, walk = self._choose, self.walk
        match event:
            case "room":
                walk.bag.room = choose.choice((0, 1, 3, PLENTY))
            case "time":
                walk.wait(choose.choice((0, 1, 7, 40, 700)))
            case "memory":
                walk.pipeline.shed()
            case "leaf":
                walk.bag.is_leaf = not walk.bag.is_leaf
            case "crash":
                later = self._next()
                later.now_ns = walk.now_ns + choose.choice((0, 5, 700)) * SECOND
                later.recover()
                self.walks.append(later)
            case _:
                pass


@each_row("seed", [*range(15), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(15, 60))])
def test_nothing_stays_in_the_journal_and_nothing_is_missing(seed: int):
    choose = random.Random(seed)  # noqa: S311 - chooses events, no secrets
    lives = Lives(choose)
    sent = [each for recording in choose.sample(RECORDED, choose.randint(1, 3)) for each in recording]
    if choose.random() < 0.5:
        choose.shuffle(sent)
    for signal, body in sent:
        lives.send(signal, body)
        lives.happen(choose.choice(EVENTS))
    lives.walk.bag.room = PLENTY
    close_all(lives.walk)
    lives.walk.now_ns += 5 * 3600 * SECOND
    lives.walk.wait(2)
    assert lives.journal.left() == []
    assert len(lives.ledger) == 0
    assert lives.acknowledged <= sent_on(*lives.walks)
    assert (lives.walk.books()["balance"], lives.walk.books()["held"]) == (0, 0)
