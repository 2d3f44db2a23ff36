"""When what is ready to leave does so: twice a second, as each request costs as much as a few spans; sooner where it is
much; and not while senders wait for their requests to be read, unless it has waited for long.
"""

_EVERY_NS = 500_000_000
_MAY_WAIT_NS = 250_000_000


class Leaving:
    """Asked each round; `is_under_way` from when it is time until all has left."""

    def __init__(self, now_ns: int) -> None:
        self.is_under_way = False
        self._next_ns = now_ns
        self._by_ns = now_ns

    def begin_if_due(self, now_ns: int, *, is_pressing: bool) -> None:
        """Get under way, if it is time or what is ready is much."""
        if not self.is_under_way and (now_ns >= self._next_ns or is_pressing):
            self.is_under_way = True
            self._next_ns = now_ns + _EVERY_NS
            self._by_ns = now_ns + _MAY_WAIT_NS

    def has_turn(self, now_ns: int, *, do_senders_wait: bool) -> bool:
        """Tell whether to go on with it in this round."""
        return self.is_under_way and (not do_senders_wait or now_ns >= self._by_ns)
