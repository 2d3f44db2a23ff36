"""What is remembered of spans, answers and waiting calls for other traces."""

from msgspec.structs import replace

from tests.assemble.support import (
    agent,
    answered,
    args,
    assembler,
    conversation,
    executed,
    head,
    joined,
    model,
    reading,
    requested,
)
from tests.rows import each_row
from toolgauge.assemble.cross_trace import LoopDetector, RecentSpans, SplitDetector, UnmatchedResults, WaitingCalls
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.observations import PAUSED, CallAnswered, CallError, Reading
from toolgauge.model.records import SpanHead, SpanRef, packed_head
from toolgauge.model.trajectory import ToolCall, Trajectory

# -- spans that came before their trace opened

TRACE = b"t" * 16
CHILD = packed_head(TRACE, b"a" * 8, b"b" * 8, flags=0x100)
HANDED_OVER = packed_head(TRACE, b"c" * 8, b"d" * 8, flags=0x300)
ROOT = packed_head(TRACE, b"e" * 8)


@each_row("seen", [CHILD, HANDED_OVER, ROOT])
def test_ids_come_back_as_they_were(seen: SpanHead):
    recent = RecentSpans(10)
    recent.add_heads([seen])
    assert recent.take_heads(TRACE) == [seen]
    assert recent.take_heads(TRACE) == []


def test_at_most_twice_the_capacity_is_remembered():
    recent = RecentSpans(2)
    for number in range(6):
        recent.add_heads([head(f"s{number}", trace=f"{number:032x}")])
    found = [number for number in range(6) if recent.take_heads(bytes.fromhex(f"{number:032x}"))]
    assert 2 <= len(found) <= 4
    assert found == list(range(6 - len(found), 6))


# -- one trace a model call: what came of a call is only in the history of the next trace

FIRST, SECOND, THIRD = "1" * 32, "2" * 32, "3" * 32

ASK = reading("ask", model(), requested("f", args(), id="1"), start=0, trace=FIRST)
NEXT = reading("next", model(), answered("1", "fine"), requested("g", args(), id="2"), start=5, trace=SECOND)
LAST = reading("last", model(), answered("1", "fine"), answered("2", "Error: ValueError: no"), start=9, trace=THIRD)


def calls(*readings: Reading) -> list[ToolCall]:
    found, _ = assembler()
    for one in readings:
        found.add(one, 0)
    return sorted((call for trajectory in found.close_all(1) for call in trajectory.calls), key=lambda call: call.name)


def test_the_next_trace_tells_what_came_of_a_call():
    one, two = calls(ASK, NEXT, LAST)
    assert (one.state, one.result, one.error) == ("executed", Recorded("fine"), None)
    assert two.error is not None
    assert (two.state, two.error.kind) == ("executed", "ValueError")


def test_an_answer_before_the_call_is_about_another_call():
    again = reading("again", model(), requested("f", args(), id="1"), start=20, trace=THIRD)
    states = {call.span.trace_id: call.state for call in calls(ASK, NEXT, again)}
    assert states[THIRD] == "requested_only"


def test_another_service_says_nothing():
    other = reading("next", model(), answered("1", "fine"), start=5, trace=SECOND, service="other")
    (call,) = calls(ASK, other)
    assert call.state == "requested_only"


def test_a_model_call_inside_a_run_is_no_model_call_alone():
    inside = reading("next", model(), answered("1", "fine"), start=5, trace=SECOND, parent="run")
    (call,) = calls(ASK, inside)
    assert call.state == "requested_only"


def test_the_oldest_answers_are_forgotten():
    few = UnmatchedResults(max_bytes=1500)
    few.note(NEXT)
    assert len(list(few.found([ASK]))) == 1
    few.note(reading("x", model(), answered("9", "fine"), start=7, trace=THIRD))
    assert list(few.found([ASK])) == []


def test_of_a_long_answer_both_ends_are_kept():
    some = UnmatchedResults()
    some.note(reading("next", model(), answered("1", "a" * 5000), start=5, trace=SECOND))
    (told,) = some.found([ASK])
    (answer,) = told.observations
    assert isinstance(answer, CallAnswered)
    assert isinstance(answer.result, Unparsed)
    assert (len(answer.result.text), answer.result.reason) == (1024, "truncated")


def test_what_is_remembered_of_answers_is_bounded_in_bytes_whatever_names_take():
    some, asked = UnmatchedResults(max_bytes=2_500_000), list[Reading]()
    for number in range(10):
        failed = answered(f"{number}", error=CallError(kind=f"{number}" * 400_000, message="no"))
        service = f"{number}" * 400_000
        some.note(reading("next", model(), failed, start=5, trace=f"{number:032x}", service=service))
        asking = reading("ask", model(), requested("f", id=f"{number}"), trace=FIRST, service=service)
        assert len(list(some.found([asking]))) == 1
        asked.append(asking)
    # Each takes 800,000 bytes.
    assert [len(list(some.found([asking]))) for asking in asked] == [0] * 7 + [1] * 3


# -- calls that wait at the end of a trace

WAITS = CallError(kind=PAUSED, message="")


def waiting(conversation_id: str) -> Trajectory:
    asked = reading("m", model(), requested("wire", args(n=1), id="c"), parent="run", start=1)
    stopped = reading("t", executed("wire", args(n=1), id="c", error=WAITS), parent="run", start=2)
    return joined(reading("run", agent("clerk"), conversation(conversation_id), end=9), asked, stopped)


def resumed(conversation_id: str) -> Trajectory:
    """Return the trace that carries out the call, which looks like half a trace."""
    run = reading("run", agent("clerk"), conversation(conversation_id), end=99)
    ran = reading("t", executed("wire", args(n=1), id="c"), parent="run", start=2)
    return replace(joined(run, ran), split_sign="a tool ran for which the request of the model never came")


def test_a_waiting_call_explains_its_execution_in_a_later_trace_of_the_conversation():
    memory = WaitingCalls()
    assert memory.explained(waiting("x")).split_sign is None
    assert memory.explained(resumed("x")).split_sign is None
    assert memory.explained(resumed("y")).split_sign is not None


def test_the_oldest_waiting_calls_are_forgotten():
    memory = WaitingCalls(max_entries=6)
    for conversation_id in ("x", "y", "z"):
        memory.explained(waiting(conversation_id))
    assert memory.explained(resumed("x")).split_sign is not None
    assert memory.explained(resumed("z")).split_sign is None


# -- loops

MINUTE = 60_000_000_000


def refs(count: int, offset: int = 0) -> list[SpanRef]:
    return [SpanRef("a" * 32, f"{number:016x}") for number in range(offset, offset + count)]


def suspected(*groups: tuple[list[SpanRef], int]) -> bool:
    seen = LoopDetector()
    newest = 0
    for group, now_ns in groups:
        newest = now_ns
        seen.add(group, now_ns)
    seen.turn_over_if_due(newest + MINUTE)
    return seen.loop_suspected


@each_row(
    ("spans", "repeated", "at_ns", "is_suspected"),
    [
        (200, 200, MINUTE + 1, True),
        # The next minute.
        (200, 200, 2 * MINUTE + 1, True),
        # A request that was sent again.
        (2000, 500, MINUTE + 1, False),
        # Beyond the memory.
        (100_000, 100_000, MINUTE + 1, True),
        (20, 20, MINUTE + 1, False),
    ],
)
def test_a_loop_is_suspected_where_a_large_share_comes_twice(
    spans: int, repeated: int, at_ns: int, *, is_suspected: bool
):
    assert suspected((refs(spans), MINUTE), (refs(repeated), at_ns)) is is_suspected


def test_a_suspicion_ends_with_the_repetition():
    seen = LoopDetector()
    for ref in refs(200) * 2:
        seen.add([ref], MINUTE)
    seen.turn_over_if_due(2 * MINUTE)
    assert seen.loop_suspected
    seen.turn_over_if_due(3 * MINUTE)
    assert not seen.loop_suspected


# -- splits

HOUR = 3_600_000_000_000


def reports(detector: SplitDetector, *, whole: int = 0, split: int = 0, now_ns: int = 0) -> int:
    """Show it so many; return how often it wants to report."""
    signs = [False] * whole + [True] * split
    return sum([detector.add(now_ns, has_sign=sign) for sign in signs])


def test_a_share_of_signs_is_suspicious():
    detector = SplitDetector()
    assert reports(detector, whole=45, split=5) == 1
    assert detector.split_suspected
    assert detector.share == 0.1


def test_a_few_are_not():
    detector = SplitDetector()
    assert reports(detector, whole=5, split=4) == 0
    assert not detector.split_suspected


def test_requests_that_were_lost_now_and_then_are_not():
    detector = SplitDetector()
    for _ in range(10):
        assert reports(detector, whole=95, split=5) == 0


def test_a_suspicion_ends_with_the_signs():
    detector = SplitDetector()
    reports(detector, split=50)
    reports(detector, whole=90)
    assert detector.split_suspected
    reports(detector, whole=1)
    assert not detector.split_suspected


def test_it_is_reported_again_after_an_hour():
    detector = SplitDetector()
    assert reports(detector, split=50) == 1
    assert reports(detector, whole=100, split=50, now_ns=HOUR - 1) == 0
    assert reports(detector, whole=100, split=50, now_ns=HOUR) == 1
