"""Habits of agents: found while serving, watched as streams, and no evidence where calls may be missing."""

from collections.abc import Sequence
from itertools import count
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from tests.export.scorecards import call
from tests.rows import each_row
from tests.watch.behaviour_simulation import LOOKUP, REFUND, SEARCH, Mix, alarms_of, conversation, release
from tests.watch.support import HOUR, MINUTE, SECOND, START, scorecard, watch_metrics, watcher
from toolgauge.export.regression_events import cause_sentences, sentence
from toolgauge.model.observations import UNKNOWN_TOOL, CallError, ToolDefinition
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import BEFORE, BEHAVIOUR, CALLS, UNUSED, USED, USUAL
from toolgauge.watch.open_conversations import TrajectoryScores, trajectory_scores
from toolgauge.watch.watcher import Watcher

ALL = ("used", "before", "calls")


def behaviour_watcher(**fields: object) -> Watcher:
    return watcher(None, **{"behaviour": ALL, "baseline_min": 40, **fields})


def send(
    watching: Watcher, calls: Sequence[Sequence[str]], *, first: int = 0, every_ns: int = MINUTE, version: str = "1.1"
) -> list[str]:
    """Send one conversation for each list of calls; return the sentences about regressions."""
    found: list[str] = []
    for number, tools in enumerate(calls, first):
        now_ns = START + number * every_ns
        told = watching.add(conversation(number, now_ns, tools, [1.0] * len(tools), version), now_ns)
        found += [sentence(one) for one in told]
    return found


def habits(watching: Watcher) -> set[tuple[str, str | None, str]]:
    """Return criterion, tool and revision of the streams of behaviour."""
    streams = [one.stream for one in watching.statuses() if one.stream.criterion.startswith("behaviour.")]
    return {(stream.criterion.removeprefix("behaviour."), stream.tool, stream.revision) for stream in streams}


def test_a_release_that_skips_a_lookup_in_every_third_refund_is_told_within_60_conversations() -> None:
    found = [release(seed, known=200, refunds=1.0, skipped=1 / 3) for seed in range(6)]
    assert max(each.skips or 1000 for each in found) <= 60
    first = found[0].first
    assert first is not None
    assert (first.stream.criterion, first.stream.tool, first.stream.revision) == (BEFORE, REFUND, LOOKUP)
    assert sentence(first).startswith(f"`{LOOKUP}` before `{REFUND}` in ")
    assert " % of conversations with version 1.2, " in sentence(first)
    assert cause_sentences(first)[0].startswith("`service.version` changed from `1.1` to `1.2`")


@each_row("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.long)])
def test_steady_mixes_that_follow_the_hours_of_the_day_keep_the_promise(seeds: range) -> None:
    alarms = [alarms_of(Mix.drawn(Random(seed), 100), seed, 2) for seed in seeds]  # noqa: S311 repeatable
    assert sum(map(len, alarms)) <= 2 * len(seeds)
    # Users want other tools by night: without a baseline for each part of the day, these would alarm every day.
    assert not [one for each in alarms for one in each if one.stream.criterion in (USED, UNUSED, CALLS)]


def test_what_is_usual_is_learned_first_and_said() -> None:
    watching = behaviour_watcher(baseline_min=200)
    send(watching, [[LOOKUP, REFUND]] * 99)
    (status,) = (one for one in watching.statuses() if one.stream.criterion.startswith("behaviour."))
    assert (status.stream.criterion, status.state, status.observations, status.needed) == (USUAL, "learning", 99, 200)
    send(watching, [[LOOKUP, REFUND]] * 2, first=99)
    assert habits(watching) == {
        ("used", LOOKUP, "1"),
        ("used", REFUND, "1"),
        ("before", REFUND, LOOKUP),
        ("calls", None, "2-2"),
    }
    counts = {one.stream.criterion: one.observations for one in watching.statuses()}
    assert (counts[BEFORE], counts[USED]) == (101, 1)


def test_the_last_of_several_tools_before_it_is_its_usual_predecessor_and_rare_tools_are_no_habit() -> None:
    watching = behaviour_watcher()
    rarely = [["verify", LOOKUP, "ask", REFUND], *[["verify", LOOKUP, REFUND, REFUND]] * 9]
    send(watching, rarely * 3)
    assert habits(watching) >= {("before", REFUND, LOOKUP), ("before", LOOKUP, "verify"), ("calls", None, "4-4")}
    assert not [habit for habit in habits(watching) if habit[1] == "ask"]


def test_of_an_agent_with_many_tools_eight_are_watched() -> None:
    watching = behaviour_watcher()
    send(watching, [[f"tool-{number}" for number in range(20)]] * 30)
    assert {habit[1] for habit in habits(watching)} == {None, *(f"tool-{number}" for number in range(8))}


def test_a_tool_that_is_used_more_often_than_usual_is_told_as_well() -> None:
    watching = behaviour_watcher()
    usual = [[LOOKUP, SEARCH], [LOOKUP], [LOOKUP]]
    assert not send(watching, usual * 300, every_ns=SECOND)
    told = send(watching, [[LOOKUP, SEARCH]] * 60, first=900, every_ns=SECOND)
    assert told[0].startswith(f"`{SEARCH}` not used in 0 % of conversations, 67 % before")


def test_more_calls_than_usual_are_told_and_the_new_range_is_learned_when_that_is_accepted() -> None:
    watching = behaviour_watcher()
    assert not send(watching, [[LOOKUP] * 2, [LOOKUP] * 3] * 100, every_ns=SECOND)
    (told,) = send(watching, [[LOOKUP] * 7] * 60, first=200, every_ns=SECOND)
    assert told.startswith("`2-3` calls of agent `orders` in 0 % of conversations, 100 % before")
    assert watching.acknowledge({"criterion": CALLS}, START) == 1
    assert not send(watching, [[LOOKUP] * 7] * 100, first=260, every_ns=SECOND)
    assert ("calls", None, "7-7") in habits(watching)
    assert ("calls", None, "2-3") not in habits(watching)


def test_each_hour_of_the_day_has_a_share_of_its_own() -> None:
    watching = behaviour_watcher()
    day = [[LOOKUP, REFUND]] * 120 + [[LOOKUP], [LOOKUP], [LOOKUP, REFUND]] * 40
    for number in range(8):
        assert not send(watching, day, every_ns=6 * MINUTE, first=240 * number)
    night = [[LOOKUP], [LOOKUP], [LOOKUP, REFUND]] * 40
    told = send(watching, night, every_ns=6 * MINUTE, first=240 * 8)
    assert told[0].startswith(f"`{REFUND}` used in 3")


def test_a_restart_keeps_habits_and_the_conversations_that_will_show_them() -> None:
    before, after = behaviour_watcher(), behaviour_watcher()
    send(before, [[LOOKUP, REFUND]] * 15)
    assert after.restore(before.changes()[0]) == 0
    after.keep({})
    assert habits(after) == {("usual", None, "1")}
    send(after, [[LOOKUP, REFUND]] * 10, first=15)
    again = behaviour_watcher()
    again.restore(after.changes()[0])
    again.keep({})
    assert (
        habits(again)
        == habits(after)
        == {
            ("used", LOOKUP, "1"),
            ("used", REFUND, "1"),
            ("before", REFUND, LOOKUP),
            ("calls", None, "2-2"),
        }
    )


@each_row(
    ("fields", "left"),
    [
        ({"behaviour": "off"}, set[str | None]()),
        ({"behaviour": ["before"]}, {REFUND}),
        ({"behaviour_except": ["orders"]}, set[str | None]()),
        ({"behaviour_except": ["refund*"]}, {None, LOOKUP}),
    ],
)
def test_configuration_takes_streams_away_also_those_that_were_learned_before(
    fields: dict[str, object], left: set[str | None]
) -> None:
    before, after = behaviour_watcher(), behaviour_watcher(**fields)
    send(before, [[LOOKUP, REFUND]] * 30)
    after.restore(before.changes()[0])
    after.keep({})
    assert {habit[1] for habit in habits(after)} == left
    fresh = behaviour_watcher(**fields)
    send(fresh, [[LOOKUP, REFUND]] * 30)
    assert {habit[1] for habit in habits(fresh)} == left


def of_calls(
    number: int, tools: Sequence[str], *, conversation_id: str | None = "c-1", at_ns: int = START
) -> Scorecard:
    card = scorecard(number, [], at_ns=at_ns, conversation=conversation_id)
    calls = tuple(call(tool) for tool in tools)
    return replace(card, trajectory=replace(card.trajectory, calls=calls))


def with_fields(card: Scorecard, **fields: object) -> Scorecard:
    return replace(card, trajectory=replace(card.trajectory, **fields))


def called(card: Scorecard) -> tuple[tuple[str, ...] | None, str, int]:
    found = trajectory_scores(card)
    assert found is not None
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=TrajectoryScores)
    ((one, calls),) = sent.scores.items()
    return one.called, one.gap, calls


def test_tools_reach_the_watcher_in_the_order_of_their_first_calls_also_from_another_process() -> None:
    assert called(of_calls(1, [LOOKUP, REFUND, LOOKUP])) == ((LOOKUP, REFUND), "", 3)
    many = called(of_calls(1, [f"tool-{number}" for number in range(100)]))
    assert (len(many[0] or ()), many[1:]) == (32, ("within", 100))


@each_row(
    ("fields", "gap"),
    [
        ({"incomplete": "a span is missing"}, "within"),
        ({"closed_because": "max_duration"}, "within"),
        ({"hidden_turns": 1}, "within"),
        ({"has_beginning": False}, "before"),
    ],
)
def test_a_trajectory_that_was_not_seen_whole_is_no_evidence_of_a_tool_that_was_not_used(
    fields: dict[str, object], gap: str
) -> None:
    assert called(with_fields(of_calls(1, [REFUND]), **fields))[1] == gap
    watching = behaviour_watcher()
    watching.observe(with_fields(of_calls(1, [REFUND]), **fields))
    watching.tick(START + HOUR)
    assert not watching.statuses()


def test_names_of_tools_that_do_not_exist_are_left_out() -> None:
    card = with_fields(of_calls(1, [LOOKUP, "made_up"]), tools_offered=(ToolDefinition(name=LOOKUP),))
    first, second = card.trajectory.calls
    asked = replace(second, state="rejected")
    assert called(with_fields(card, calls=(first, asked))) == ((LOOKUP,), "", 1)
    unknown = replace(asked, error=CallError(kind=UNKNOWN_TOOL, message=""))
    assert called(with_fields(card, calls=(first, unknown), tools_offered=None)) == ((LOOKUP,), "", 1)


def test_traces_of_one_conversation_join() -> None:
    watching, numbers = behaviour_watcher(), count()
    for number in range(30):
        for tools, began in (([LOOKUP], True), ([REFUND, SEARCH], False)):
            at_ns = START + number * HOUR
            card = of_calls(next(numbers), tools, conversation_id=f"c-{number}", at_ns=at_ns)
            watching.observe(with_fields(card, has_beginning=began))
        watching.tick(START + number * HOUR + 30 * MINUTE)
    assert habits(watching) >= {("before", REFUND, LOOKUP), ("before", SEARCH, REFUND), ("calls", None, "3-3")}


def test_a_conversation_that_was_cut_is_no_evidence() -> None:
    watching = behaviour_watcher()
    for number in range(8):
        watching.observe(of_calls(number, [LOOKUP], at_ns=START + number * 9 * MINUTE))
        watching.tick(START + number * 9 * MINUTE)
    assert not watching.statuses()


def test_what_calls_of_a_tool_show_is_no_cause_of_its_use() -> None:
    watching, numbers = behaviour_watcher(), count()

    def add(tools: Sequence[str]) -> list[tuple[str, ...]]:
        number = next(numbers)
        card = of_calls(number, tools, conversation_id=None, at_ns=START + number * SECOND)
        return [cause_sentences(one) for one in watching.observe(card)]

    for tools in [[LOOKUP, SEARCH], [LOOKUP], [LOOKUP]] * 200:
        add(tools)
    causes = [found for _ in range(60) for found in add([LOOKUP, SEARCH])]
    assert causes
    assert not [cause for each in causes for cause in each if SEARCH in cause]


def test_names_from_spans_take_a_bounded_amount_of_memory() -> None:
    watching = behaviour_watcher(baseline_min=1000)
    for number in range(20):
        one = conversation(number, START, [f"tool-{number}-{place}" for place in range(30)], [1.0] * 30)
        watching.add(one, START)
    rows, _ = watching.changes()
    (agent,) = (saved for row, saved in rows.items() if row.startswith(b"u"))
    assert len(agent) < 40_000


@pytest.mark.long
def test_many_agents_take_a_bounded_amount_of_memory() -> None:
    watching = behaviour_watcher()
    for number in range(300):
        card = with_fields(of_calls(number, [LOOKUP], conversation_id=None), agents=(f"agent {number}",))
        watching.observe(card)
    assert len([one for one in watching.statuses() if one.stream.criterion == USUAL]) == 200
    rows = [row for row in watching.changes()[0] if row.startswith(b"u")]
    assert len(rows) == 200


def test_metrics_show_behaviour_as_they_show_scores() -> None:
    metrics = watch_metrics()
    watching = watcher(metrics, behaviour=ALL, baseline_min=40)
    send(watching, [[LOOKUP, REFUND]] * 70)
    watching.tick(START + HOUR)
    labels = {(each[3], each[4], each[5]) for each in metrics.active.cells if each[4] in BEHAVIOUR}
    assert labels == {(LOOKUP, USED, "1"), (REFUND, USED, "1"), (REFUND, BEFORE, LOOKUP), ("", CALLS, "2-2")}
    assert UNUSED not in {each[4] for each in metrics.active.cells}


def test_habits_that_are_being_learned_take_no_power_from_scores() -> None:
    lengths: list[float] = []
    for behaviour in ("off", ALL):
        metrics = watch_metrics()
        send(watcher(metrics, behaviour=behaviour, baseline_min=200), [[LOOKUP, REFUND]] * 150)
        lengths += metrics.run_length.current().values()
    assert lengths[0] == lengths[1]
