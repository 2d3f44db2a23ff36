"""Conversations: traces with one conversation id, joined anew when the conversation went quiet."""

from tests.assemble.support import (
    SECOND_NS,
    agent,
    answered,
    args,
    assembler,
    conversation,
    executed,
    model,
    reading,
    requested,
    shown,
)
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings, LateMemory
from toolgauge.model.content import Recorded
from toolgauge.model.observations import Reading
from toolgauge.model.trajectory import Trajectory

MINUTE_NS = 60 * SECOND_NS
ONE, TWO, THREE = (f"{number:032x}" for number in (1, 2, 3))


def turn(trace: str, tool: str, *, start: int, said: str = "talk") -> tuple[Reading, Reading]:
    return (
        reading(f"{tool}_tool", executed(tool), parent=f"{tool}_run", trace=trace, start=start + 1),
        reading(f"{tool}_run", agent("a"), conversation(said), trace=trace, start=start),
    )


def all_closed(box: Assembler, until_ns: int) -> list[tuple[int, Trajectory]]:
    found: list[tuple[int, Trajectory]] = []
    while (due_ns := box.next_due_ns()) is not None and due_ns <= until_ns:
        found.extend((due_ns, trajectory) for trajectory in box.closed(due_ns))
    return found


def feed(box: Assembler, now_ns: int, *readings: Reading) -> None:
    for one in readings:
        box.add(one, now_ns)


def test_a_conversation_joins_the_calls_of_its_traces():
    box, _ = assembler(conversations=True)
    feed(box, 0, *turn(ONE, "first", start=0))
    early = all_closed(box, MINUTE_NS)
    feed(box, 2 * MINUTE_NS, *turn(TWO, "second", start=120_000))
    late = all_closed(box, 60 * MINUTE_NS)
    assert [(due_ns, one.scope, one.closed_because) for due_ns, one in early + late] == [
        (6 * SECOND_NS, "trace", "run_ended"),
        (126 * SECOND_NS, "trace", "run_ended"),
        (126 * SECOND_NS + 10 * MINUTE_NS, "conversation", "conversation_idle"),
    ]
    whole = late[-1][1]
    assert (whole.conversation_id, whole.trace_id, whole.root) == ("talk", TWO, turn(TWO, "second", start=0)[1].ref)
    assert shown(whole) == [(0, 0, "first", "executed"), (1, 0, "second", "executed")]
    assert (box.open_count, box.eviction.open_bytes) == (0, 0)


def test_an_answer_is_found_in_a_later_trace():
    box, _ = assembler(conversations=True)
    feed(box, 0, reading("ask1", model(), conversation("talk"), requested("f", args(n=1), id="1"), trace=ONE, start=0))
    feed(box, 1, reading("ask2", model(), conversation("talk"), answered("1", "fine"), trace=TWO, start=5))
    trace_one, trace_two, whole = (one for _, one in all_closed(box, 60 * MINUTE_NS))
    assert (trace_one.calls[0].state, trace_two.calls) == ("executed", ())
    assert (whole.scope, whole.calls[0].state, whole.calls[0].result) == ("conversation", "executed", Recorded("fine"))


def test_a_conversation_waits_for_its_turn_that_is_still_running():
    box, _ = assembler(conversations=True)
    feed(box, 0, *turn(ONE, "first", start=0))
    feed(box, 9 * MINUTE_NS, reading("ask", model(), conversation("talk"), parent="run", trace=TWO, start=540_000))
    assert [one.scope for _, one in all_closed(box, 20 * MINUTE_NS)] == ["trace"]
    feed(box, 20 * MINUTE_NS, reading("run", agent("a"), trace=TWO, start=540_000))
    assert [(due_ns, one.scope) for due_ns, one in all_closed(box, 60 * MINUTE_NS)] == [
        (20 * MINUTE_NS + 6 * SECOND_NS, "trace"),
        (30 * MINUTE_NS + 6 * SECOND_NS, "conversation"),
    ]


def test_a_conversation_that_never_rests_closes_at_the_longest_duration():
    box, _ = assembler(AssembleSettings(max_duration=30 * MINUTE_NS), conversations=True)
    closed: list[tuple[int, Trajectory]] = []
    for number in range(5):
        now_ns = number * 9 * MINUTE_NS
        closed += all_closed(box, now_ns)
        feed(box, now_ns, *turn(f"{number:032x}", "again", start=number * 540_000))
    conversations = [
        (due_ns, one.closed_because, len(one.calls)) for due_ns, one in closed if one.scope == "conversation"
    ]
    assert conversations == [(30 * MINUTE_NS + 6 * SECOND_NS, "max_duration", 4)]


def test_a_trace_of_a_closed_conversation_is_scored_alone_and_counted_late():
    for_an_hour = LateMemory().model_copy(update={"for_": 60 * MINUTE_NS})
    box, metrics = assembler(AssembleSettings(late_memory=for_an_hour), conversations=True)
    feed(box, 0, *turn(ONE, "first", start=0))
    assert [one.scope for _, one in all_closed(box, 11 * MINUTE_NS)] == ["trace", "conversation"]
    feed(box, 20 * MINUTE_NS, *turn(TWO, "second", start=1_200_000))
    assert [one.scope for _, one in all_closed(box, 90 * MINUTE_NS)] == ["trace"]
    assert (metrics.late.cells[()].count, metrics.late.cells[()].sum) == (1, 600.0)


def test_shutdown_closes_traces_and_then_their_conversations():
    box, _ = assembler(conversations=True)
    feed(box, 0, *turn(ONE, "first", start=0), *turn(TWO, "second", start=5), *turn(THREE, "x", start=6, said="other"))
    assert [(one.scope, one.conversation_id, len(one.calls), one.closed_because) for one in box.close_all(1)] == [
        ("trace", "talk", 1, "shutdown"),
        ("trace", "talk", 1, "shutdown"),
        ("trace", "other", 1, "shutdown"),
        ("conversation", "talk", 2, "shutdown"),
        ("conversation", "other", 1, "shutdown"),
    ]
    assert (box.open_count, box.eviction.open_bytes) == (0, 0)


def test_conversations_count_against_the_bytes_and_the_oldest_goes_first():
    box, _ = assembler(AssembleSettings(max_open_bytes=20_000), conversations=True)
    feed(box, 0, *turn(ONE, "first", start=0))
    assert len(all_closed(box, MINUTE_NS)) == 1
    feed(box, MINUTE_NS, *turn(TWO, "second", start=60_000, said="other"))
    long = executed("third", result=Recorded("r" * 16_000))
    feed(box, MINUTE_NS, reading("more", long, parent="second_run", trace=TWO))
    (evicted,) = box.closed(MINUTE_NS)
    assert (evicted.scope, evicted.conversation_id, evicted.closed_because) == (
        "conversation",
        "talk",
        "max_open_bytes",
    )


def test_the_number_of_open_conversations_is_bounded():
    box, _ = assembler(AssembleSettings(max_open=2), conversations=True)
    closed: list[Trajectory] = []
    for number in range(3):
        now_ns = number * 10 * SECOND_NS
        feed(box, now_ns, *turn(f"{number:032x}", "f", start=number, said=f"talk {number}"))
        closed += box.closed(now_ns + 6 * SECOND_NS)
    assert [one.scope for one in closed] == ["trace", "trace", "trace", "conversation"]
    assert (closed[-1].conversation_id, closed[-1].closed_because, box.open_count) == ("talk 0", "max_open", 2)


def test_an_eviction_during_shutdown_loses_nothing():
    box, _ = assembler(AssembleSettings(max_open=1), conversations=True)
    feed(box, 0, *turn(ONE, "first", start=0), *turn(TWO, "second", start=5, said="other"))
    closed = [(one.scope, one.conversation_id) for one in box.close_all(1)]
    assert sorted(closed) == [
        ("conversation", "other"),
        ("conversation", "talk"),
        ("trace", "other"),
        ("trace", "talk"),
    ]
