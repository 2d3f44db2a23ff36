"""An exporter of a plug-in may raise anything: its request is dropped and counted, and the next one is sent."""

import asyncio

import pytest

from tests.recognize.support import self_metrics
from toolgauge.export.destination import exporter_destination
from toolgauge.model.delivery import Outgoing, Signal


class Raises:
    def __init__(self, error: BaseException) -> None:
        self._error: BaseException | None = error
        self.sent: list[bytes] = []

    async def start(self) -> None:
        pass

    async def send(self, signal: Signal, body: bytes) -> None:  # noqa: ARG002 (as the interface has it)
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.sent.append(body)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError(), ValueError()])
async def test_an_exporter_that_raises_anything_costs_one_request(error: BaseException):
    exporter, metrics = Raises(error), self_metrics()
    destination = exporter_destination("mine", exporter, metrics)
    await destination.start()
    for body in (b"one", b"two"):
        assert destination.put(Outgoing(signal="traces", body=body, spans=1, own=False))
    await destination.drain(60)
    await destination.close()
    assert exporter.sent == [b"two"]
    reasons = {labels[-1] for labels in metrics.send_failures.cells}
    assert any(type(error).__name__ in reason for reason in reasons)
