"""What outlives a service: the state file, the journal in it, and its ledger; and how a service takes up what the one before it left."""

import logging
from collections.abc import Callable

from toolgauge.assemble.settings import LateMemory
from toolgauge.model.errors import DecodeError, StateError
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.selfmetrics import StateMetrics
from toolgauge.service.process import Faults
from toolgauge.state.journal import Journal
from toolgauge.state.ledger import Ledger
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import StateStore

_LOG = logging.getLogger("toolgauge")


class Persistence:
    """The state directory of one service. `clock` is the service's.

    Raises `StartError` when the directory cannot be used.
    """

    def __init__(
        self,
        store: StateStore,
        settings: StateSettings,
        late: LateMemory,
        metrics: StateMetrics,
        clock: Callable[[], int],
    ) -> None:
        self.store = store
        try:
            self.journal = Journal(
                store, settings, metrics, clock=clock, closed_for_ns=late.for_, max_closed=late.traces
            )
        except BaseException:
            store.close()
            raise
        self.ledger = Ledger(self.journal)
        self._clock = clock
        self._is_ending = False

    @classmethod
    def of(
        cls, settings: StateSettings, late: LateMemory, metrics: StateMetrics, clock: Callable[[], int]
    ) -> "Persistence | None":
        """Open the directory of the section `state`; `None` without one."""
        store = StateStore.of(settings)
        return None if store is None else cls(store, settings, late, metrics, clock)

    def recover(self, pipeline: Pipeline, faults: Faults) -> None:
        """Have the pipeline take up what an earlier process left, before anything else reaches it; then begin to write.

        A fault in reading a request is survived, as when it came: else no process could start ever again. What cannot be
        read is counted and logged, and what there is no time for stays for the next start.
        """
        began_ns = self._clock()
        count = spoilt = 0
        try:
            pipeline.assembler.recovery.restore(self.journal.closed_ids(), self._clock())
            pipeline.earlier_traces.restore(self.journal.shown_values())
            for entry in self.journal.entries():
                if self._is_ending:
                    break
                if not count:
                    _LOG.info("reading what an earlier process left in the journal")
                count += 1
                with faults.survived():
                    try:
                        pipeline.recover(entry, self._clock())
                    except DecodeError:
                        spoilt += 1
        except StateError as error:
            _LOG.error("what an earlier process left cannot be read: %s", error)
        self.journal.start()
        pipeline.end_recovery(self._clock())
        if spoilt:
            _LOG.error("%d requests in the journal are no requests any more, and are dropped", spoilt)
        if count:
            took_s = (self._clock() - began_ns) / 1e9
            open_count = pipeline.trajectories_open
            _LOG.info(
                "took up %d requests of an earlier process in %.1f s: %d trajectories go on", count, took_s, open_count
            )

    def hurry(self) -> None:
        """Leave entries that have not been read yet to the next start."""
        self._is_ending = True

    def close(self) -> None:
        """Write what was submitted, and let another process have the directory. Works twice."""
        self.journal.close()
        self.store.close()
