"""What the end of a service cost, for its last line: spans and trajectories apart, spans by destination."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from toolgauge.export.destination import Undelivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """`undelivered` has the names of destinations; `held` found no room in any queue.

    Trajectories that were `dropped` have no result; `incomplete` ones are `not_evaluated`, which is no loss of data. `kept` by the
    journal, undelivered, and `open` trajectories are no loss either: the next start goes on with them. `died` counts the spans that
    were lost with workers.
    """

    undelivered: tuple[tuple[str, Undelivered], ...] = ()
    held: Undelivered = field(default_factory=Undelivered)
    dropped: int = 0
    incomplete: int = 0
    kept: tuple[tuple[str, Undelivered], ...] = ()
    open: int = 0
    died: int = 0

    def __bool__(self) -> bool:
        return bool(self.undelivered or self.held or self.dropped or self.died)

    def __str__(self) -> str:
        return "; ".join(self._parts())

    @property
    def spans(self) -> int:
        """Spans that were not delivered, over all destinations."""
        return self.died + self.held.spans + sum(undelivered.spans for _, undelivered in self.undelivered)

    def _parts(self) -> Iterator[str]:
        for name, undelivered in self.undelivered:
            yield f"{undelivered} could not be delivered to {name}"
        if self.held:
            yield f"{self.held} found no room in a queue"
        if self.died:
            yield f"{self.died} spans were lost with a worker that died"
        if self.dropped:
            yield f"{self.dropped} trajectories were dropped unscored"
        if self.incomplete:
            yield f"{self.incomplete} trajectories are `not_evaluated` (`incomplete`)"
        for name, kept in self.kept:
            yield f"{kept} wait in the journal for {name}"
        if self.open:
            yield f"{self.open} open trajectories wait in the journal"
