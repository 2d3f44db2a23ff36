"""Joining a large trace pauses, so that the event loop is not kept waiting; small ones are joined in one go."""

import gc
import time

from tests.assemble.support import TRACE, agent, answered, args, assembler, conversation, executed, model, requested
from tests.assemble.support import reading as read
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings


def box_of(turns: int, *, conversations: bool = False) -> Assembler:
    settings = AssembleSettings(max_open_bytes=1 << 40, max_content_bytes=1 << 40)
    box, _ = assembler(settings, conversations=conversations)
    box.add(read("run", agent("a"), conversation("talk"), end=10_000_000), 0)
    for turn in range(turns):
        asked = requested("look", args(n=turn), id=f"c{turn}")
        told = [answered(f"c{turn - 1}")] if turn else []
        box.add(read(f"m{turn}", model(), *told, asked, parent="run", start=turn * 10, end=turn * 10 + 4), 0)
        tool = executed("look", args(n=turn), id=f"c{turn}")
        box.add(read(f"t{turn}", tool, parent="run", start=turn * 10 + 5, end=turn * 10 + 7), 0)
    return box


def test_a_small_trace_is_joined_without_a_pause():
    (trajectory,) = box_of(10).closing_all(1)
    assert trajectory is not None
    assert len(trajectory.calls) == 10


def test_a_large_trace_is_joined_with_pauses_to_the_same_trajectory():
    *pauses, paused = box_of(1000).closing_all(1)
    assert len(pauses) > 10
    assert all(pause is None for pause in pauses)
    assert [paused] == list(box_of(1000).close_all(1))


def test_a_trace_is_closed_while_it_is_being_joined():
    box = box_of(1000)
    steps = box.closing_all(1)
    assert next(steps) is None
    assert (box.is_closed(TRACE), box.open_count) == (True, 0)
    box.add(read("late", executed("look"), parent="run"), 2)
    (trajectory,) = (step for step in steps if step is not None)
    assert len(trajectory.calls) == 1000


def test_a_conversation_is_joined_with_pauses():
    of_trace, of_conversation = box_of(500, conversations=True).close_all(1)
    assert (len(of_trace.calls), len(of_conversation.calls)) == (500, 500)
    steps = list(box_of(500, conversations=True).closing_all(1))
    assert steps[-1] == of_conversation
    assert steps[-2] is None


def test_no_pause_of_a_trace_of_40_000_spans_is_far():
    longest = 0.0
    box = box_of(20_000)
    gc.collect()
    # Collecting walks over what all other tests have left, too.
    gc.disable()
    try:
        started = before = time.process_time()
        for _ in box.closing_all(1):
            now = time.process_time()
            longest, before = max(longest, now - before), now
    finally:
        gc.enable()
    assert longest < max(1.0, (before - started) / 3)
