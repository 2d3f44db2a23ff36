"""What a reading weighs where no memory can be measured: values made to fool the scale. See `tests/walk/test_memory.py`."""

from tests.assemble.support import args, executed, reading
from toolgauge.assemble.weight import Scale
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json
from toolgauge.model.observations import MessageSeen


def weight(result: Json, *, size: int) -> int:
    return Scale().weight(reading("t", executed("f", result=Recorded(result)), size=size))


def test_a_long_text_where_the_sample_begins_does_not_weigh_as_if_all_were_long():
    mostly_short: list[Json] = ["x" * 100_000, *range(100_000)]
    assert 100_000 < weight(mostly_short, size=700_000) <= 35_000_650


def test_samples_of_samples_stay_within_what_such_bytes_can_take():
    value: Json = []
    for _ in range(2000):
        nested: list[Json] = [value, *range(200)]
        value = nested
    assert 1_000_000 < weight(value, size=2_000_000) <= 100_000_650


def test_a_sample_is_not_taken_from_one_column():
    rows: Json = [[1, 2, 3, "x" * 1000] for _ in range(1000)]
    assert 700_000 < weight(rows, size=1_100_000) < 1_600_000


def test_a_repeated_system_prompt_weighs_once():
    scale, prompt = Scale(), MessageSeen(role="system", text="s" * 10_000)
    first, second = (scale.weight(reading(name, prompt, executed("f", args(n=1)), size=11_000)) for name in "ab")
    assert (first > 10_000, second < 1500) == (True, True)
