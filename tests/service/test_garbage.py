"""Everything is looked at for garbage in quiet moments, and seldom when that takes long."""

from toolgauge.service.process import GarbageRounds

S = 1_000_000_000


class Looks:
    """Counts looks, each of which takes as long as is said."""

    def __init__(self, takes_ns: int = 0) -> None:
        self.takes_ns = takes_ns
        self.now_ns = 0
        self.count = 0
        self.rounds = GarbageRounds(self.collect, lambda: self.now_ns)

    def collect(self) -> None:
        self.count += 1
        self.now_ns += self.takes_ns

    def until(self, seconds: int, *, is_quiet: bool) -> int:
        """Ask every second until then; return how many looks there were by then."""
        while self.now_ns < seconds * S:
            self.now_ns += S
            self.rounds.look(self.now_ns, is_quiet=is_quiet)
        return self.count


def test_while_it_is_quiet_there_is_a_look_every_minute():
    looks = Looks()
    assert looks.until(59, is_quiet=True) == 0
    assert looks.until(305, is_quiet=True) == 5


def test_nobody_waits_for_a_look_while_there_is_work():
    looks = Looks()
    assert looks.until(590, is_quiet=False) == 0
    assert looks.until(592, is_quiet=True) == 1


def test_work_without_an_end_does_not_put_it_off_for_ever():
    assert Looks().until(605, is_quiet=False) == 1


def test_looks_that_take_long_are_seldom():
    assert Looks(takes_ns=S).until(560, is_quiet=True) == 1
    assert Looks(takes_ns=S).until(570, is_quiet=True) == 2
