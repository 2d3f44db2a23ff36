"""Open conversations: what each of them takes, what all together do, and that nothing of their scores is lost for it."""

from functools import partial

import msgspec
import pytest
from msgspec.structs import replace

from tests.watch.support import HOUR, MINUTE, SECOND, START, scorecard, watch_metrics, watcher
from toolgauge.model.outcomes import Scorecard
from toolgauge.watch.open_conversations import OpenConversations, TrajectoryScores, trajectory_scores

TOOLS = [f"tool-{number}" for number in range(25)]
MIB = 1 << 20


def scores(
    number: int, *, conversation: str | None = None, names: str = "", value: float = 1.0, at_ns: int = START
) -> TrajectoryScores:
    """Return the scores of a trace, as they come from another process: with names of its own."""
    tools = [(tool + names, value) for tool in TOOLS]
    card = scorecard(number, tools, at_ns=at_ns, conversation=conversation or f"c-{number}")
    found = trajectory_scores(card)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=TrajectoryScores)


def test_conversations_that_take_too_much_together_are_counted_early_the_longest_idle_first():
    open_ones = OpenConversations(10 * MINUTE, max_bytes=MIB // 4)
    cut: list[str] = []
    for number in range(300):
        open_ones.add(scores(number), START + number)
        if number % 3 == 0:
            open_ones.add(scores(1000 + number, conversation="c-0"), START + number)
        cut += [key[1] for key, _, is_cut in open_ones.idle(START + number) if is_cut]
        assert open_ones.size_bytes <= MIB // 4
    assert len(cut) > 100
    assert cut == [f"c-{number}" for number in range(1, len(cut) + 1)]
    assert len(open_ones) == 300 - len(cut)


def test_memory_that_is_short_has_half_of_them_counted_a_few_at_a_time():
    open_ones = OpenConversations(10 * MINUTE)
    for number in range(1000):
        open_ones.add(scores(number), START + number)
    before = open_ones.size_bytes
    open_ones.shed()
    cut: list[int] = []
    while True:
        cut.append(len(list(open_ones.idle(START + SECOND))))
        if not cut[-1]:
            break
    assert max(cut) == 250
    assert 450 < sum(cut) < 550
    assert open_ones.size_bytes <= before // 2
    for number in range(1000, 1600):
        open_ones.add(scores(number), START + SECOND)
    assert not list(open_ones.idle(START + SECOND))


def counted(*cards: Scorecard) -> dict[str | None, tuple[dict[str, tuple[float, int]], str]]:
    """Return what the streams of one conversation get, by tool: scores, and the worst trace."""
    open_ones = OpenConversations(MINUTE)
    for card in cards:
        found = trajectory_scores(card)
        assert found is not None
        assert open_ones.add(found, START) is None
    ((_, conversation, _),) = open_ones.idle(START + MINUTE)
    assert open_ones.size_bytes == 0
    return {key[3]: (tally.scores, tally.worst_trace[-1]) for key, tally in conversation.tallies.items()}


def test_scores_are_summed_by_tool_in_the_stream_of_the_tool_and_of_its_agent():
    cards = [
        scorecard(1, [("find", 1.0), ("find", 1.0), ("book", 0.5)], at_ns=START, conversation="c"),
        scorecard(2, [("find", 0.25), ("find", 1.0)], at_ns=START, conversation="c"),
        scorecard(3, [("find", 0.25)], at_ns=START, conversation="c"),
    ]
    assert counted(*cards) == {
        "find": ({"": (3.5, 5)}, "2"),
        "book": ({"": (0.5, 1)}, "1"),
        None: ({"find": (3.5, 5), "book": (0.5, 1)}, "2"),
    }


def test_what_a_conversation_takes_does_not_grow_with_scores_that_it_had_before():
    open_ones = OpenConversations(10 * MINUTE)
    open_ones.add(scores(1, conversation="c"), START)
    before = open_ones.size_bytes
    for number in range(2, 100):
        open_ones.add(scores(number, conversation="c"), START)
    assert open_ones.size_bytes == before


def test_a_thousand_different_verdicts_complete_a_conversation_and_excess_tools_have_no_stream_of_their_own():
    metrics = watch_metrics()
    watching = watcher(metrics)
    for number in range(42):
        watching.add(scores(number, conversation="c", names=f"-{number}"), START)
        watching.tick(START)
    assert metrics.observations_cut.value() == 1
    statuses = watching.statuses()
    assert len(statuses) <= 201
    assert metrics.streams_evicted.value() == 40 * len(TOOLS) - len(statuses) + 1
    whole = next(arm for arm in watching.arms() if arm.stream.tool is None)
    assert (whole.observations, whole.sum) == (1, 1.0)


@pytest.mark.parametrize(
    ("evaluator", "tool", "watched"),
    [("tool_use", None, True), ("coverage", None, False), ("tool_success", "find", False)],
)
def test_scores_that_never_fail_are_watched_only_as_a_figure_of_runs_that_is_not_about_their_recording(
    evaluator: str, tool: str | None, *, watched: bool
):
    for can_fail in (True, False):
        card = scorecard(1, [(tool, 0.5)], at_ns=START)
        results = tuple(
            replace(each, criterion=evaluator, evaluator=evaluator, can_fail=can_fail) for each in card.results
        )
        found = trajectory_scores(replace(card, results=results))
        assert found is not None
        assert any(one.values for one in found.scores) == (can_fail or watched)


def test_an_hour_of_a_conversation_is_one_observation_on_either_side_of_a_restart():
    before, after = (watcher(conversation_idle="10m") for _ in range(2))
    add = partial(scores, conversation="c-1")
    for minute in range(0, 30, 5):
        before.add(add(minute, value=1.0), START + minute * MINUTE)
        before.tick(START + minute * MINUTE)
    after.restore(before.changes()[0])
    for minute in range(30, 60, 5):
        after.add(add(minute, value=0.0), START + minute * MINUTE)
        after.tick(START + minute * MINUTE)
    after.tick(START + 2 * HOUR)
    assert {(arm.observations, arm.sum) for arm in after.arms()} == {(1, 0.5)}
