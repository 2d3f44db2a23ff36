from toolgauge.export.fan_out import FanOut
from toolgauge.model.delivery import NO_ENTRY, Accepted, Outgoing, Signal
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.records import SpanRef
from toolgauge.otlp.envelope import Container, parse_request
from toolgauge.otlp.request import read_request
from toolgauge.pipeline.egress import Admission, Egress, HeldSpan
from toolgauge.selfmetrics import SelfMetrics

SPAN = b"\x0a\x10" + b"1" * 16


class Room(FanOut):
    """Takes what there is room for."""

    def __init__(self, metrics: SelfMetrics) -> None:
        super().__init__((), metrics)
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


def held(raw: bytes, container: Container | None = None) -> HeldSpan:
    ref = SpanRef(trace_id="0" * 31 + "1", span_id="0" * 15 + "1")
    return HeldSpan(ref, container or of_one_request(), raw, 0, NO_ENTRY)


def egress() -> tuple[Egress, Admission, Room]:
    metrics = SelfMetrics(MetricRegistry())
    outbox = Room(metrics)
    admission = Admission(outbox, metrics, lambda _size_bytes: True)
    return Egress(admission, lambda _scorecards: (), metrics), admission, outbox


def admits(admission: Admission, signal: Signal) -> bool:
    """Whether a request of one item would be taken; one that is taken is withdrawn again."""
    request = read_request(signal, b"\n\x04\x12\x02\x12\x00", 0)
    is_taken = isinstance(admission.admit(request), Accepted)
    if is_taken:
        admission.withdraw(request)
    return is_taken


def test_spans_that_find_no_room_turn_traces_away_and_nothing_else():
    leaving, admission, outbox = egress()
    outbox.requests = 1
    leaving.release([held(SPAN), held(SPAN)])
    leaving.flush()
    assert len(outbox.taken) == 1
    outbox.requests = 5
    assert not admits(admission, "traces")
    assert admits(admission, "logs")
    leaving.flush()
    assert len(outbox.taken) == 2
    assert admits(admission, "traces")


def test_a_request_that_finds_no_room_turns_its_own_signal_away_until_it_has_left():
    leaving, admission, outbox = egress()
    outbox.requests = 0
    leaving.pass_on(Outgoing(signal="logs", body=b"\n\0", spans=0, own=False), None)
    outbox.requests = 5
    assert not admits(admission, "logs")
    assert admits(admission, "traces")
    leaving.flush()
    assert admits(admission, "logs")
    assert [outgoing.signal for outgoing in outbox.taken] == ["logs"]


def test_spans_of_one_request_that_grew_too_large_leave_in_several_in_their_order():
    leaving, admission, outbox = egress()
    around = of_one_request()
    spans = [SPAN + b"\x2a\x80\x80\x20" + bytes([65 + number]) * 524_288 for number in range(10)]
    leaving.release(held(span, around) for span in spans)
    outbox.requests = 2
    leaving.flush()
    assert [taken.spans for taken in outbox.taken] == [3, 3]
    assert not admits(admission, "traces")
    outbox.requests = 5
    leaving.flush()
    assert [taken.spans for taken in outbox.taken] == [3, 3, 3, 1]
    assert all(len(taken.body) < 4_000_000 for taken in outbox.taken)
    sent = [raw for taken in outbox.taken for raw in spans_of(taken.body)]
    assert sent == spans


def test_a_span_that_is_larger_than_any_request_leaves_alone():
    leaving, _, outbox = egress()
    around = of_one_request()
    large = SPAN + b"\x2a\x80\x80\x80\x02" + b"x" * 4_194_304
    leaving.release([held(SPAN, around), held(large, around), held(SPAN, around)])
    leaving.flush()
    assert [taken.spans for taken in outbox.taken] == [1, 1, 1]


def spans_of(body: bytes) -> list[bytes]:
    request = parse_request(body)
    return [raw for group in request.resource_groups for scope in group.scope_groups for raw in scope.items]


def test_nothing_waits_for_others_that_senders_wait_for():
    leaving, _, outbox = egress()
    outbox.requests = 0
    leaving.pass_on(Outgoing(signal="traces", body=SPAN, spans=1, own=False), None)
    assert leaving.is_pressing


def test_requests_of_one_connection_leave_together_and_never_with_others():
    leaving, _, outbox = egress()
    bodies = [bytes([10, 2, 18, 0]) + b"\x0a\x00" * number for number in range(4)]
    for body, sender in zip(bodies, ("a", "b", "a", None), strict=True):
        leaving.pass_on(Outgoing(signal="traces", body=body, spans=1, own=False), sender)
    assert [taken.body for taken in outbox.taken] == [bodies[3]]
    leaving.forward()
    assert [taken.body for taken in outbox.taken] == [bodies[3], bodies[0] + bodies[2], bodies[1]]
    assert [taken.spans for taken in outbox.taken] == [1, 2, 1]


def test_requests_that_leave_together_can_be_taken_apart_again():
    leaving, _, outbox = egress()
    bodies = [bytes([10, 2, 18, 0]) + b"\x0a\x00" * number for number in range(3)]
    for number, body in enumerate(bodies):
        leaving.pass_on(Outgoing(signal="traces", body=body, spans=number, own=False), "a")
    leaving.pass_on(Outgoing(signal="traces", body=bodies[0], spans=1, own=False), "b")
    leaving.forward()
    together, alone = outbox.taken
    assert together.parts == ((4, 0), (6, 1), (8, 2))
    assert alone.parts == ()


def test_released_spans_can_be_taken_apart_by_the_requests_in_which_they_came():
    leaving, _, outbox = egress()
    one, other, again = (
        Container((b"\x10\x01",), b"", (), b"", request=request, origin="a") for request in ("1", "2", "1")
    )
    leaving.release(
        held(SPAN + b"\x2a\x01" + name, around) for name, around in ((b"a", one), (b"b", other), (b"c", again))
    )
    leaving.flush()
    (taken,) = outbox.taken
    (size, count), (other_size, other_count) = taken.parts
    assert (count, other_count) == (2, 1)
    assert spans_of(taken.body[:size]) == [SPAN + b"\x2a\x01a", SPAN + b"\x2a\x01c"]
    assert spans_of(taken.body[size:]) == [SPAN + b"\x2a\x01b"]
    assert size + other_size == len(taken.body)


def test_what_stands_around_released_spans_counts_as_theirs_once_for_each_request():
    leaving, _, outbox = egress()
    resource = b"\x10\x01" * 750_000
    one, other = (
        Container((resource + request,), b"", (), b"", request=request, origin="a") for request in (b"", b"\x10\x02")
    )
    leaving.release(held(SPAN, around) for around in (one, one, other, other))
    leaving.flush()
    assert [taken.spans for taken in outbox.taken] == [2, 2]
