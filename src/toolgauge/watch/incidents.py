"""Decides which failed runs are announced to people: the first of each incident, and few a minute."""

from msgspec import Struct

from toolgauge.model.notices import Notice
from toolgauge.settings import HOUR, MINUTE

PER_MINUTE = 10
_MAX_KNOWN = 10_000


class Incidents(Struct):
    """An incident is a criterion that fails for one service, agent and tool, until an hour passes without it.

    `left_out` counts incidents beyond those of a minute since the last one that was announced; each is announced when it fails again.
    """

    left_out: int = 0
    _minute_ns: int = 0
    _announced: int = 0
    # When each incident was last heard of, the least recently first; announced runs stand beside them.
    heard_ns: dict[tuple[str | None, ...], int] = {}

    def is_new(self, notice: Notice, now_ns: int) -> bool:
        """Return whether it begins an incident, and is to be announced."""
        incident = notice.service, notice.agent, notice.tool, notice.criterion
        # The agent of a run that still goes on may not be known.
        run = notice.trace_id, notice.tool, notice.criterion
        last_ns = self.heard_ns.pop(incident, None)
        is_new = run not in self.heard_ns and (last_ns is None or now_ns - last_ns >= HOUR)
        if is_new:
            if now_ns - self._minute_ns >= MINUTE:
                self._minute_ns, self._announced = now_ns, 0
            if self._announced >= PER_MINUTE:
                self.left_out += 1
                return False
            self._announced += 1
            self.heard_ns[run] = now_ns
        self.heard_ns[incident] = now_ns
        while len(self.heard_ns) > _MAX_KNOWN:
            del self.heard_ns[next(iter(self.heard_ns))]
        return is_new
