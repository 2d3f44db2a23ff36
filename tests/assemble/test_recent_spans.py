import pytest

from tests.assemble.support import head
from toolgauge.assemble.recent_spans import RecentSpans
from toolgauge.model.records import SpanHead, packed_head

TRACE = b"t" * 16
CHILD = packed_head(TRACE, b"a" * 8, b"b" * 8, flags=0x100)
HANDED_OVER = packed_head(TRACE, b"c" * 8, b"d" * 8, flags=0x300)
ROOT = packed_head(TRACE, b"e" * 8)


@pytest.mark.parametrize("seen", [CHILD, HANDED_OVER, ROOT])
def test_ids_come_back_as_they_were(seen: SpanHead):
    recent = RecentSpans(10)
    recent.add_head(*seen)
    assert recent.take_heads(TRACE) == [seen]
    assert recent.take_heads(TRACE) == []


def test_spans_of_a_trace_come_back_in_the_order_in_which_they_came():
    recent = RecentSpans(2)
    for seen in (CHILD, HANDED_OVER, ROOT):
        recent.add_head(*seen)
    assert recent.take_heads(TRACE) == [CHILD, HANDED_OVER, ROOT]


def test_at_most_twice_the_capacity_is_remembered():
    recent = RecentSpans(2)
    for number in range(6):
        recent.add_head(*head(f"s{number}", trace=f"{number:032x}"))
    found = [number for number in range(6) if recent.take_heads(bytes.fromhex(f"{number:032x}"))]
    assert 2 <= len(found) <= 4
    assert found == list(range(6 - len(found), 6))
