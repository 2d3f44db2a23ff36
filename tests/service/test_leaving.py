"""What is ready to leave waits for more of it, and for senders, but for neither for long."""

from toolgauge.service.leaving import Leaving

MS = 1_000_000


def leaving_at(now_ns: int, *, is_pressing: bool = False) -> Leaving:
    leaving = Leaving(0)
    leaving.begin_if_due(0, is_pressing=False)
    leaving.is_under_way = False
    leaving.begin_if_due(now_ns, is_pressing=is_pressing)
    return leaving


def test_it_leaves_twice_a_second():
    assert not leaving_at(499 * MS).is_under_way
    assert leaving_at(500 * MS).is_under_way


def test_it_leaves_sooner_where_it_is_much():
    assert leaving_at(100 * MS, is_pressing=True).is_under_way


def test_it_waits_for_senders_that_wait():
    leaving = leaving_at(500 * MS)
    assert not leaving.has_turn(500 * MS, do_senders_wait=True)
    assert leaving.has_turn(500 * MS, do_senders_wait=False)


def test_it_has_its_turns_where_senders_never_cease_to_wait():
    leaving = leaving_at(500 * MS)
    assert not leaving.has_turn(749 * MS, do_senders_wait=True)
    assert leaving.has_turn(750 * MS, do_senders_wait=True)


def test_what_becomes_ready_while_it_is_under_way_puts_nothing_off():
    leaving = leaving_at(500 * MS)
    leaving.begin_if_due(740 * MS, is_pressing=True)
    assert leaving.has_turn(750 * MS, do_senders_wait=True)


def test_nothing_has_a_turn_while_nothing_is_ready():
    assert not leaving_at(100 * MS).has_turn(100 * MS, do_senders_wait=False)
