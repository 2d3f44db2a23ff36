"""One conversation while its traces close: a turn of a dialogue is often a trace of its own."""

from msgspec.structs import replace

from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.trajectory import ClosedBecause, Trajectory


class OpenConversation:
    """A conversation that is not closed yet."""

    def __init__(self, conversation_id: str, settings: AssembleSettings, now_ns: int) -> None:
        self.conversation_id = conversation_id
        self.opened_ns = now_ns
        self.active_ns = now_ns
        self.size_bytes = 0
        self.traces: list[GatheredTrace] = []
        self._settings = settings

    def add(self, trace: GatheredTrace, size_bytes: int, now_ns: int) -> None:
        """Take a trace that has closed."""
        self.traces.append(trace)
        self.size_bytes += size_bytes
        self.active_ns = now_ns

    def due(self) -> tuple[int, ClosedBecause]:
        """Return when the conversation closes if no trace of it comes, and why."""
        idle: tuple[int, ClosedBecause] = (
            self.active_ns + self._settings.conversation_idle_timeout,
            "conversation_idle",
        )
        return min(idle, (self.opened_ns + self._settings.max_duration, "max_duration"))

    def trajectory(self, because: ClosedBecause) -> Trajectory | None:
        """Join the traces anew: an answer may be in another trace than its call."""
        joined = join(self.traces, scope="conversation", closed_because=because)
        return replace(joined, conversation_id=self.conversation_id) if joined is not None else None
