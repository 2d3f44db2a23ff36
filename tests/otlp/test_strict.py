from tests.otlp import stock
from tests.otlp.stock import field
from tests.rows import each_row
from toolgauge.otlp.request import count_undecodable

GOOD = stock.span(stock.key_value("note")).SerializeToString()
NO_TEXT = GOOD + field(5, b"caf\xe9")
NO_TEXT_IN_A_VALUE = GOOD + field(9, field(1, b"note") + field(2, field(1, b"\xff")))
CUT_OFF = GOOD + b"\x2a\x7f"
MANY_EVENTS = GOOD + field(11, b"") * 110_000


@each_row("broken", [NO_TEXT, NO_TEXT_IN_A_VALUE, CUT_OFF, MANY_EVENTS])
def test_spans_that_cannot_be_decoded_are_counted_one_by_one(broken: bytes):
    body = stock.request_of([GOOD, broken]) + stock.request_of([broken, GOOD])
    assert count_undecodable("traces", body) == 2


def test_all_spans_of_a_broken_resource_are_counted():
    broken = field(1, field(1, field(1, field(1, b"\xff"))) + field(2, field(2, GOOD) + field(2, GOOD)))
    assert count_undecodable("traces", broken + stock.request_of([GOOD])) == 2


def test_all_spans_of_a_broken_scope_are_counted():
    broken = field(1, field(2, field(1, field(1, b"\xff")) + field(2, GOOD)) + field(2, field(2, GOOD)))
    assert count_undecodable("traces", broken) == 1


def test_what_cannot_be_taken_apart_is_no_span():
    assert count_undecodable("traces", b"\x0a\x7f") == 0
    assert count_undecodable("metrics", stock.request_of([NO_TEXT])) == 0
