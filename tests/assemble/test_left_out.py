"""Ids and numbers in the cut part of a text can still be looked up, in bounded memory."""

import itertools
import time

from tests.assemble.support import agent, args, assembler, conversation, executed, model, only_call, reading, requested
from tests.rows import each_row
from toolgauge.assemble.cutting import Cutter, TruncatedIndex, merged
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.left_out import NOTHING_LEFT_OUT, LeftOut
from toolgauge.model.observations import CallError, MessageSeen, Reading
from toolgauge.model.trajectory import Trajectory

FILLER = "nothing of interest " * 400


def closed(*readings: Reading, max_content_bytes: int = 1000) -> Trajectory:
    box, _ = assembler(AssembleSettings(max_content_bytes=max_content_bytes))
    for one in readings:
        box.add(one, 0)
    (trajectory,) = box.close_all(1)
    return trajectory


def index(*texts: str, max_content_size: int = 1 << 20) -> LeftOut:
    collected = TruncatedIndex(max_content_size)
    for text in texts:
        collected.add(text)
    return collected.left_out(len(texts))


def test_ids_and_numbers_in_the_cut_part_of_a_result_are_held():
    result = Recorded({"rows": [FILLER, {"order_id": "A-17", "total": 19.99, "count": 20.0}, FILLER]})
    trajectory = closed(reading("t", executed("f", args(n=1), result=result), size=17_000))
    kept = only_call(trajectory).result
    assert isinstance(kept, Unparsed)
    assert "A-17" not in kept.text
    assert [trajectory.left_out.holds(value) for value in ("A-17", "a-17", "19.99", "20", "A-18", "21")] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert trajectory.left_out.texts == 1


def test_every_text_that_an_observation_carries_is_indexed():
    trajectory = closed(
        reading(
            "ask",
            model(),
            MessageSeen(role="user", text=f"{FILLER}m1 {FILLER}"),
            requested("f", Recorded({"x": f"{FILLER}r2 {FILLER}"}), id="c"),
            size=32_000,
        ),
        reading(
            "t",
            executed("f", id="c", error=CallError(kind="E", message=f"{FILLER}e3 {FILLER}")),
            parent="ask",
            size=16_000,
        ),
    )
    assert [trajectory.left_out.holds(value) for value in ("m1", "r2", "e3")] == [True, True, True]


def test_nothing_is_held_where_nothing_was_cut():
    trajectory = closed(reading("t", executed("f", result=Recorded("A-17"))))
    assert trajectory.left_out is NOTHING_LEFT_OUT
    assert trajectory.left_out.holds("A-17") is False


def test_numbers_within_longer_numbers_are_not_held():
    assert index("1201 and 20.5").holds("120") is False
    assert index("1201 and 20.5").holds("20") is True


def test_what_cannot_be_looked_up_is_not_denied():
    held = index("12 Main Street, x17y")
    assert held.holds("Berlin") is None
    assert held.holds("12 Main Street") is None
    assert held.holds("7 Main Street") is False
    assert held.holds("n17") is None
    assert held.holds("1" * 65) is None


def test_a_full_index_says_so_and_denies_nothing():
    held = index(*(str(number) for number in range(10_000)), max_content_size=1000)
    assert not held.is_complete
    assert len(held.hashes) == 1024 * 8
    answers = [held.holds(str(number)) for number in range(10_000)]
    assert answers.count(True) == 1024
    assert answers.count(None) == 10_000 - 1024
    assert held.holds("A-17") is None


def test_indexes_of_traces_are_merged_in_any_order():
    parts = [index("A-1"), index("B-2", "C-3"), NOTHING_LEFT_OUT, index(*(str(n) for n in range(3000)))]
    wholes = {merged(order) for order in itertools.permutations(parts)}
    assert len(wholes) == 1
    (whole,) = wholes
    assert [whole.holds(value) for value in ("A-1", "C-3", "2999", "3000")] == [True, True, True, False]
    assert whole.texts == 3003


def test_a_conversation_holds_what_was_cut_in_any_of_its_traces():
    box, _ = assembler(AssembleSettings(max_content_bytes=1000), conversations=True)
    for number in (1, 2):
        text = f"{FILLER}A-{number} {FILLER}"
        box.add(
            reading("t", agent("a"), conversation("talk"), executed("f", result=Recorded(text)), trace=f"{number:032}"),
            0,
        )
        box.add(reading("u", executed("g", result=Recorded("x")), trace=f"{number:032}", size=20_000), 0)
    whole = next(one for one in box.close_all(1) if one.scope == "conversation")
    assert [whole.left_out.holds(value) for value in ("A-1", "A-2", "A-3")] == [True, True, False]


def test_a_number_that_was_cut_in_two_is_not_held_in_parts():
    cutter = Cutter(1000)
    cutter.fit({number: reading(f"t{number}", executed("f", result=Recorded("9" * 3000))) for number in range(30)})
    assert cutter.left_out.hashes == b""
    assert cutter.left_out.texts == 30


@each_row(
    "text",
    ["1 " * 500_000, "a-1:" * 250_000, "9" * 1_000_000],
    ids=["numbers", "joined", "one number"],
)
def test_a_hostile_text_of_a_megabyte_costs_little_time_and_memory(text: str):
    collected = TruncatedIndex(1 << 20)
    started = time.process_time()
    collected.add(text)
    assert time.process_time() - started < 1
    assert collected.size_bytes <= 2 * 4096 * 100
