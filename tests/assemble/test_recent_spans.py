from tests.assemble.support import head, reading
from tests.rows import each_row
from toolgauge.assemble.cross_trace import RecentSpans
from toolgauge.model.observations import ConversationSeen
from toolgauge.model.records import SpanHead, packed_head

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


def test_one_large_request_does_not_fill_more_than_the_memory():
    recent = RecentSpans(2)
    recent.add_heads([head(f"s{number}", trace=f"{number:032x}") for number in range(7)])
    found = [number for number in range(7) if recent.take_heads(bytes.fromhex(f"{number:032x}"))]
    assert found == [4, 5, 6]


def test_spans_with_large_names_are_fewer():
    recent = RecentSpans(1000)
    for number in range(100):
        session = ConversationSeen(conversation_id=f"{number}" * 100_000, rank=1)
        recent.add(reading("s", session, trace=f"{number:032x}", size=200_000))
    found = [number for number in range(100) if recent.take(f"{number:032x}")]
    assert 1 <= len(found) <= 20
    assert found[-1:] in ([98], [99])


def test_what_was_given_away_leaves_room():
    recent = RecentSpans(1000)
    recent.add_heads([CHILD])
    for number in range(100):
        session = ConversationSeen(conversation_id=f"{number}" * 50_000, rank=1)
        recent.add(reading("s", session, trace=f"{number:032x}", size=100_000))
        assert len(recent.take(f"{number:032x}")) == 1
    assert recent.take_heads(TRACE) == [CHILD]
