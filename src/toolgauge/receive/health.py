"""`grpc.health.v1` on the gRPC receiver, by the library of the gRPC project."""
# grpcio-health-checking has no types, and its asyncio form is bound to the module only when it is imported.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Iterable

import grpc.aio
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server


class GrpcHealth:
    """Says for the server as a whole (service "") and for each service whether it takes requests."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._servicer = health.aio.HealthServicer()
        add_HealthServicer_to_server(self._servicer, server)

    async def serving(self, services: Iterable[str]) -> None:
        """Say that requests are taken."""
        for service in ("", *services):
            await self._servicer.set(service, HealthCheckResponse.SERVING)

    async def stopping(self) -> None:
        """Say that no more requests are taken; those who watch are told at once."""
        await self._servicer.enter_graceful_shutdown()
