"""Half a run is not a run: what shows, when a trajectory closes, that it may lack spans, and what does not."""

from tests.assemble.support import (
    SECOND_NS,
    agent,
    answered,
    conversation,
    executed,
    head,
    log,
    model,
    no_history,
    reading,
    requested,
)
from tests.rows import each_row
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import MessageSeen, Reading
from toolgauge.model.trajectory import ClosedBecause, Trajectory
from toolgauge.selfmetrics import SelfMetrics

MINUTE_NS = 60 * SECOND_NS
LATER_NS = 60 * MINUTE_NS
STARTED = 1_000_000
"""When the process began to receive, in milliseconds of the spans' clock."""
BEGAN_BEFORE = "it began before this process began to receive"


class Box:
    """An assembler, and the services that were reported."""

    def __init__(
        self, settings: AssembleSettings | None = None, *, live: bool = False, conversations: bool = False
    ) -> None:
        self.reported: list[str | None] = []
        self.assembler = Assembler(
            settings or AssembleSettings(),
            SelfMetrics(MetricRegistry()),
            no_history,
            conversations=conversations,
            live_since_ns=STARTED * 1_000_000 if live else None,
            on_missing_parents=self.reported.append,
        )
        self.now_ns = 0

    def add(self, *readings: Reading) -> None:
        self.now_ns += 1
        for one in readings:
            self.assembler.add(one, self.now_ns)

    def wait(self, ns: int = LATER_NS) -> list[Trajectory]:
        self.now_ns += ns
        return list(self.assembler.closed(self.now_ns))

    def shut_down(self) -> list[Trajectory]:
        return list(self.assembler.close_all(self.now_ns + 1))


def only(trajectories: list[Trajectory]) -> Trajectory:
    (trajectory,) = trajectories
    return trajectory


def call(number: int = 0, *, parent: str | None = "run", service: str = "shop", start: int = 5) -> Reading:
    """A tool span of one of many traces."""
    return reading("tool", executed("find"), parent=parent, trace=f"{number:032x}", service=service, start=start)


def run(number: int = 0, *, parent: str | None = None, start: int = 0, end: int = 10) -> Reading:
    return reading("run", agent("clerk"), parent=parent, trace=f"{number:032x}", start=start, end=end)


# -- a span is missing inside ----------------------------------------------------------------------------------------


def limits(because: ClosedBecause) -> AssembleSettings:
    match because:
        case "max_open":
            return AssembleSettings(max_open=1)
        case "max_open_bytes":
            return AssembleSettings(max_open_bytes=1)
        case _:
            return AssembleSettings(max_duration=10 * SECOND_NS)


@each_row("because", ["max_open", "max_open_bytes", "max_duration"])
def test_a_run_that_had_to_give_way_is_half_a_run(because: ClosedBecause):
    box = Box(limits(because))
    box.add(call(1), call(2))
    given_way = box.wait(20 * SECOND_NS)[0]
    assert (given_way.closed_because, given_way.incomplete is not None) == (because, True)


def test_a_run_that_has_ended_is_whole_at_shutdown_whatever_is_missing_above_it():
    box = Box()
    box.add(call(1), run(1), call(2), run(2, parent="request"))
    assert [one.incomplete for one in box.shut_down()] == [None, None]


def test_the_end_of_a_sub_agent_is_not_the_end_of_the_run():
    box = Box()
    inner = reading("inner", agent("helper"), parent="run", start=6, end=8)
    box.add(reading("model", model(), parent="run", start=1), inner, reading("tool", executed("find"), parent="inner"))
    assert only(box.shut_down()).incomplete is not None


def test_a_whole_trace_without_an_agent_is_whole_at_shutdown():
    box = Box()
    box.add(call(parent="request"))
    box.assembler.add_heads([head("request", trace=f"{0:032x}")], 1)
    assert only(box.shut_down()).incomplete is None


def test_a_remote_parent_that_has_not_come_at_shutdown_may_be_a_run_that_goes_on():
    box = Box()
    box.add(reading("tool", executed("find"), parent="run", is_remote=True))
    assert only(box.shut_down()).incomplete is not None


# -- a span that never comes -----------------------------------------------------------------------------------------


def test_where_parents_never_come_traces_are_scored_and_the_service_is_reported_once():
    box = Box()
    for number in range(5):
        box.add(call(number, parent="request"))
    assert [(one.closed_because, one.incomplete) for one in box.wait()] == [("open_idle", None)] * 5
    assert box.reported == ["shop"]


def test_runs_below_a_parent_that_never_comes_are_scored_and_the_service_is_reported():
    box = Box()
    box.add(call(), run(parent="request"))
    assert [(one.closed_because, one.incomplete) for one in box.wait()] == [("open_idle", None)]
    assert box.reported == ["shop"]


def test_where_parents_come_one_that_does_not_is_a_run_that_died():
    box = Box()
    box.add(call(1), run(1), call(2), run(2))
    assert [one.incomplete for one in box.wait()] == [None, None]
    box.add(call(3))
    died = only(box.wait())
    assert died.incomplete == "a span that contains others of it had not arrived when it was closed (open_idle)"
    assert box.reported == []


def test_services_are_told_apart():
    box = Box()
    box.add(call(1), run(1))
    box.wait()
    box.add(call(2, service="other"))
    assert only(box.wait()).incomplete is None


def test_what_is_known_of_services_is_bounded_and_changes():
    box = Box()
    for number in range(1500):
        box.add(call(number), run(number))
    box.wait()
    for number in range(2000, 4000):
        box.add(call(number))
    found = [one.incomplete is None for one in box.wait()]
    # As many of the new kind as are remembered of the old one.
    assert (found[0], found[-1]) == (False, True)


def test_log_records_whose_spans_never_come_are_scored_at_shutdown_and_later():
    for close in (Box.shut_down, Box.wait):
        box = Box()
        box.add(log("model", requested("find", id="a"), answered("a")))
        assert only(close(box)).incomplete is None


def test_log_records_whose_spans_usually_come_are_half_a_run_without_them():
    for close in (Box.shut_down, Box.wait):
        box = Box()
        box.add(call(1), run(1))
        box.wait()
        box.add(log("model", requested("find", id="a"), trace=f"{2:032x}"))
        assert only(close(box)).incomplete is not None


# -- before the start ------------------------------------------------------------------------------------------------


@each_row(
    ("start", "end", "why"),
    [
        (STARTED - 60_000, STARTED + 10, BEGAN_BEFORE),
        # Its last spans may have come to another process a moment ago.
        (STARTED - 60_000, STARTED - 5_000, BEGAN_BEFORE),
        # Recorded long ago, and sent again.
        (STARTED - 11 * 60_000, STARTED - 10 * 60_000, None),
        (STARTED + 1, STARTED + 10, None),
    ],
)
def test_a_run_that_was_going_on_when_this_process_began_to_receive_is_half_a_run(
    start: int, end: int, why: str | None
):
    box = Box(live=True)
    box.add(run(start=start, end=end))
    assert only(box.wait()).incomplete == why


@each_row(
    ("ended_ago", "retry", "why"),
    [
        (7_000, 10 * MINUTE_NS, BEGAN_BEFORE),
        (9 * 60_000, 10 * MINUTE_NS, BEGAN_BEFORE),
        # Longer ago than senders keep anything, it was recorded.
        (7_000, 0, None),
    ],
)
def test_a_run_without_a_hole_may_still_lack_pairs_that_an_earlier_process_took(
    ended_ago: int, retry: int, why: str | None
):
    end = STARTED - ended_ago
    requesting = reading("m2", model(), requested("find", id="b"), parent="run", trace=f"{0:032x}", start=end - 70)
    tool = reading("t2", executed("find", id="b"), parent="run", trace=f"{0:032x}", start=end - 60)
    box = Box(AssembleSettings(sender_retry=retry), live=True)
    box.add(requesting, tool, run(start=end - 100, end=end))
    assert only(box.wait()).incomplete == why


def test_the_start_is_the_moment_at_which_the_ports_were_open():
    live, recorded = Box(live=True), Box()
    for box in (live, recorded):
        box.assembler.completeness.receive_since((STARTED + 2_000) * 1_000_000)
        box.add(run(start=STARTED + 1_000, end=STARTED + 3_000))
    assert only(live.wait()).incomplete == BEGAN_BEFORE
    assert only(recorded.wait()).incomplete is None


# -- conversations ---------------------------------------------------------------------------------------------------


def turn(number: int, *, start: int, parent: str | None = None) -> Reading:
    return reading(
        "turn", agent("clerk"), conversation("c"), parent=parent, trace=f"{number:032x}", start=start, end=start + 10
    )


def of_conversation(found: list[Trajectory]) -> Trajectory:
    return only([one for one in found if one.scope == "conversation"])


def test_a_conversation_with_half_a_run_is_half_a_conversation():
    box = Box(AssembleSettings(max_open=1), conversations=True)
    box.add(reading("model", model(), conversation("c"), parent="run", trace=f"{1:032x}"))
    box.add(turn(2, start=50))
    found = [*box.wait(), *box.wait()]
    assert [one.incomplete is None for one in found] == [False, True, False]
    assert of_conversation(found).incomplete == found[0].incomplete


def test_a_conversation_that_began_before_this_process_began_to_receive_is_half_a_conversation():
    box = Box(live=True, conversations=True)
    box.add(turn(1, start=STARTED - 5), turn(2, start=STARTED + 5))
    assert of_conversation([*box.wait(), *box.wait()]).incomplete == BEGAN_BEFORE


def test_a_conversation_that_may_go_on_elsewhere_is_half_a_conversation():
    box = Box(live=True, conversations=True)
    box.add(turn(1, start=STARTED + 5))
    assert of_conversation(box.shut_down()).incomplete == "more turns may come after it was closed (shutdown)"


def test_where_no_other_process_goes_on_a_conversation_ends_at_shutdown():
    box = Box(conversations=True)
    box.add(turn(1, start=STARTED + 5))
    assert of_conversation(box.shut_down()).incomplete is None


def asking(number: int, *given: str, name: str = "c", follows: bool = True) -> Reading:
    """A turn of one model call, that was given answers to these calls."""
    asked = MessageSeen(role="user", text="and now?", follows=follows)
    answers = (answered(call_id) for call_id in given)
    return reading("turn", model(), asked, conversation(name), *answers, trace=f"{number:032x}", start=number)


def test_a_conversation_whose_histories_hold_calls_that_no_span_shows_is_half_a_conversation():
    box = Box(conversations=True)
    box.add(asking(1, "a", "b"))
    half = of_conversation([*box.wait(), *box.wait()])
    assert half.incomplete == "a model was given answers to calls of earlier turns, of which no span came"


def test_a_call_that_no_span_shows_in_a_conversation_with_its_beginning_is_how_it_is_recorded():
    box = Box(conversations=True)
    box.add(asking(1, follows=False), asking(2, "a"))
    whole = of_conversation([*box.wait(), *box.wait()])
    assert (whole.has_beginning, whole.incomplete) == (True, None)


def test_calls_that_stand_in_the_histories_of_several_conversations_are_examples():
    box = Box(conversations=True)
    for number in (1, 2, 3):
        box.add(asking(number, "example", name=f"c{number}"))
    found = [one for one in (*box.wait(), *box.wait()) if one.scope == "conversation"]
    assert [one.incomplete is None for one in found] == [False, True, True]
