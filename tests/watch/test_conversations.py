"""Open conversations: what each of them takes, what all together do, and that nothing of their scores is lost for it."""

from functools import partial

import msgspec

from tests.watch.support import HOUR, MINUTE, SECOND, START, scorecard, watcher
from toolgauge.watch.conversations import OpenConversations, TrajectoryScores, figures_of, tallies_of, trajectory_scores

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


def test_scores_by_stream_and_by_tool_are_the_same():
    both = scores(1).figures() | scores(2, names="-other", value=0.5).figures()
    assert figures_of(tallies_of(both)) == both


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
