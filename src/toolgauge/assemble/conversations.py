"""Conversations while their traces close: collects closed traces by conversation id and closes what went quiet.

A turn of a dialogue is often a trace of its own.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from toolgauge.assemble.closing import ClosedIds, Schedule
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.observations import CallAnswered
from toolgauge.model.trajectory import ClosedBecause, Trajectory


class OpenConversation:
    """A conversation that is not closed yet."""

    def __init__(self, conversation_id: str, settings: AssembleSettings, now_ns: int) -> None:
        self.conversation_id = conversation_id
        self.opened_ns = now_ns
        self.active_ns = now_ns
        self.size_bytes = 0
        self.traces: list[GatheredTrace] = []
        # Of the journal, each once for every trace that held it.
        self.entries: list[int] = []
        # Why one of the traces may lack spans.
        self.incomplete: str | None = None
        self.is_scored = False
        self._settings = settings

    def add(
        self,
        trace: GatheredTrace,
        size_bytes: int,
        now_ns: int,
        entries: Iterable[int] | None = None,
        incomplete: str | None = None,
    ) -> None:
        """Take a trace that has closed, with its entries of the journal, and why it may lack spans."""
        self.entries.extend(entries or ())
        self.incomplete = self.incomplete or incomplete
        self.traces.append(trace)
        self.size_bytes += size_bytes
        self.active_ns = now_ns

    def answered_ids(self) -> set[str]:
        """Return the ids of all calls that models were given answers to, those in their histories included."""
        seen = (one for trace in self.traces for reading in trace.readings for one in reading.observations)
        return {one.call_id for one in seen if type(one) is CallAnswered and one.call_id is not None}

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


class Conversations:
    """Open conversations by id. `open_until_ns` returns how long one open trace of a conversation may still take."""

    def __init__(self, settings: AssembleSettings, open_until_ns: Callable[[str], int | None]) -> None:
        self.size_bytes = 0
        self._settings = settings
        self._open_until_ns = open_until_ns
        self._open: dict[str, OpenConversation] = {}
        self._closed = ClosedIds(settings.late_memory.traces, settings.late_memory.for_)
        self._schedule = Schedule(self._due_ns)

    def adopt(self, settings: AssembleSettings) -> None:
        """Go on with other settings; open conversations keep theirs."""
        self._settings = settings

    def holds(self, conversation_id: str) -> bool:
        """Return whether the conversation is open."""
        return conversation_id in self._open

    def __len__(self) -> int:
        return len(self._open)

    @property
    def oldest(self) -> OpenConversation | None:
        """The conversation that was opened first."""
        return next(iter(self._open.values()), None)

    def restore_closed(self, conversation_id: str, closed_ns: int, now_ns: int) -> None:
        """Remember a conversation that was closed by an earlier process."""
        self._closed.restore(conversation_id, closed_ns, now_ns)

    def add(
        self,
        conversation_id: str,
        trace: GatheredTrace,
        size_bytes: int,
        now_ns: int,
        entries: Iterable[int] | None = None,
        incomplete: str | None = None,
    ) -> int | None:
        """Take a closed trace; return by how much it is late where its conversation was closed before."""
        conversation = self._open.get(conversation_id)
        if conversation is None:
            late_ns = self._closed.late_by_ns(conversation_id, now_ns)
            if late_ns is not None:
                return late_ns
            conversation = self._open[conversation_id] = OpenConversation(conversation_id, self._settings, now_ns)
        conversation.add(trace, size_bytes, now_ns, entries, incomplete)
        self.size_bytes += size_bytes
        self._schedule.note(conversation_id, conversation.due()[0])
        return None

    def next_due_ns(self) -> int | None:
        """Return when a conversation may close."""
        return self._schedule.next_due_ns()

    def take_due(self, now_ns: int) -> tuple[OpenConversation, ClosedBecause] | None:
        """Take out a conversation that went quiet, if there is one."""
        conversation_id = self._schedule.pop_due(now_ns)
        if conversation_id is None:
            return None
        conversation = self._open[conversation_id]
        self.take(conversation, now_ns)
        return conversation, conversation.due()[1]

    def take(self, conversation: OpenConversation, now_ns: int) -> None:
        """Take out a conversation; from here on it is closed."""
        del self._open[conversation.conversation_id]
        self.size_bytes -= conversation.size_bytes
        self._schedule.forget(conversation.conversation_id)
        self._closed.add(conversation.conversation_id, now_ns)

    def _due_ns(self, conversation_id: str) -> int | None:
        conversation = self._open.get(conversation_id)
        if conversation is None:
            return None
        due_ns, because = conversation.due()
        open_until_ns = self._open_until_ns(conversation_id)
        if because == "max_duration" or open_until_ns is None:
            return due_ns
        # A turn that is still running is activity, however long its model takes.
        last_ns = conversation.opened_ns + self._settings.max_duration
        return min(last_ns, max(due_ns, open_until_ns + self._settings.conversation_idle_timeout))
