from toolgauge.decode.envelope import Container
from toolgauge.departures import Departures
from toolgauge.forward.leaf import Leaf
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics

SPAN = b"\x0a\x10" + b"1" * 16


class Room(Leaf):
    """Takes what there is room for."""

    def __init__(self, metrics: SelfMetrics) -> None:
        super().__init__(metrics)
        self.requests = 1000
        self.taken: list[Outgoing] = []

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        del signal, size_bytes
        return self.requests > 0

    def put(self, outgoing: Outgoing) -> bool:
        if not self.requests:
            return False
        self.requests -= 1
        self.taken.append(outgoing)
        return True


def of_one_request() -> Container:
    return Container(resource=(), resource_schema_url=b"", scope=(), scope_schema_url=b"", origin=object())


def departures() -> tuple[Departures, Room]:
    metrics = SelfMetrics(MetricRegistry())
    outbox = Room(metrics)
    return Departures(outbox, metrics), outbox


def test_what_is_released_while_others_leave_turns_nobody_away():
    leaving, outbox = departures()
    leaving.release([(of_one_request(), SPAN)])
    steps = leaving.flushing()
    next(steps)
    leaving.release([(of_one_request(), SPAN)])
    assert list(steps) == []
    assert (len(outbox.taken), leaving.spans) == (1, 1)
    assert leaving.has_room("traces", 1)


def test_spans_that_find_no_room_turn_traces_away_and_nothing_else():
    leaving, outbox = departures()
    outbox.requests = 1
    leaving.release([(of_one_request(), SPAN), (of_one_request(), SPAN)])
    assert len(list(leaving.flushing())) == 1
    outbox.requests = 5
    assert not leaving.has_room("traces", 1)
    assert leaving.has_room("logs", 1)
    assert len(list(leaving.flushing())) == 1
    assert leaving.has_room("traces", 1)
    assert leaving.spans == 0


def test_a_request_that_finds_no_room_turns_its_own_signal_away_until_it_has_left():
    leaving, outbox = departures()
    outbox.requests = 0
    leaving.pass_on(Outgoing(signal="logs", body=b"\n\0", spans=0, own=False))
    outbox.requests = 5
    assert not leaving.has_room("logs", 1)
    assert leaving.has_room("traces", 1)
    assert list(leaving.flushing()) == []
    assert leaving.has_room("logs", 1)
    assert [outgoing.signal for outgoing in outbox.taken] == ["logs"]
