"""A destination for an application without an event loop to spare: it is given its time by the thread that calls.

Nothing here starts a thread, and nothing needs an executor: at the end of a Python process, which is when an
application that ran for a second says everything it has to say, none can be had.
"""

import asyncio
import socket
import uuid
from collections.abc import Sequence
from typing import TypeAlias

from toolgauge.config.destinations import OtlpExporter
from toolgauge.model.delivery import Outgoing
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destination import fan_out
from toolgauge.service.pipeline_factory import VERSION

_LOOK_AGAIN_S = 0.01
_Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_Found: TypeAlias = list[tuple[socket.AddressFamily, socket.SocketKind, int, str, _Address]]


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> _Found:
        """Look the address up here and now: asyncio would ask an executor."""
        return socket.getaddrinfo(host, port, family, type, proto, flags)


class Push:
    """The destinations; belongs to one thread."""

    def __init__(self, exporters: Sequence[OtlpExporter], metrics: SelfMetrics) -> None:
        self.is_grpc = any(exporter.protocol == "grpc" for exporter in exporters)
        self._destination = fan_out(exporters, metrics, hop_id=uuid.uuid4().hex, user_agent=f"toolgauge/{VERSION}")
        self._loop: _Loop | None = None

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be sent."""
        return self._destination.bytes_queued == 0

    @property
    def survives_fork(self) -> bool:
        """Tell whether a forked child may make a destination of its own: gRPC, once begun, hangs or dies there."""
        return self._loop is None or not self.is_grpc

    def put(self, outgoing: Outgoing) -> bool:
        """Queue the request; False when there is no room."""
        return self._destination.put(outgoing)

    def work(self, seconds: float) -> None:
        """Send for as long, or until everything has been sent."""
        if self._loop is None:
            self._loop = _Loop()
            self._loop.run_until_complete(self._destination.start())
        self._loop.run_until_complete(self._send(seconds))

    def close(self) -> None:
        """Stop at once; what is left is dropped and counted. May be called twice and without a start."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(self._destination.close())
            loop.close()

    async def _send(self, seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while not self.is_idle and clock() < until:
            await asyncio.sleep(_LOOK_AGAIN_S)
