"""Faults of our own in timed work: counted, told once a minute by kind and place, and survived.

Without this, one trajectory that trips a bug would end closing and scoring for everybody until the restart,
while receivers go on taking spans as if all were well.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.selfmetrics import SelfMetrics

_LOG = logging.getLogger("toolgauge")


class Faults:
    """What has failed so far."""

    def __init__(self, metrics: SelfMetrics) -> None:
        self._count = metrics.faults
        self._throttle = Throttle()

    @contextmanager
    def survived(self) -> Generator[None]:
        """Do one piece of work; a fault ends it and nothing else."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (nobody waits for timed work: it would end in silence, for good)
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        kind = type(error).__name__
        self._count.add(1, (kind,))
        # The place and not the message, which may quote what came in a span.
        places = extract_tb(error.__traceback__)
        place = f"{Path(places[-1].filename).name}, line {places[-1].lineno}" if places else "an unknown place"
        told = f"{kind} in {place}"
        suppressed = self._throttle.suppressed(told)
        if suppressed is not None:
            _LOG.error(
                "a fault of ours, survived and counted in toolgauge.faults: %s; please report it%s",
                told,
                repetitions(suppressed),
                extra={"error.type": kind},
            )
