"""Sends the recordings as their frameworks did: over real sockets, request by request, some runs side by side."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import time
from collections.abc import Sequence

import aiohttp
import grpc.aio

from toolgauge.demo.recorded import Recording, moved_to

_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_BETWEEN_REQUESTS_S = 0.25
_BETWEEN_RECORDINGS_S = 0.7


async def send_all(recordings: Sequence[Recording], grpc_port: int, http_port: int) -> None:
    """Send every recording, each on its own: the even ones over gRPC, the odd ones over HTTP."""
    async with (
        # A proxy in the environment has no part in this.
        grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}", options=(("grpc.enable_http_proxy", 0),)) as channel,
        aiohttp.ClientSession(f"http://127.0.0.1:{http_port}") as http,
        asyncio.TaskGroup() as group,
    ):
        for number, recording in enumerate(recordings):
            if number % 2:
                group.create_task(_send_http(recording, http))
            else:
                group.create_task(_send_grpc(recording, channel))
            await asyncio.sleep(_BETWEEN_RECORDINGS_S)


async def _send_grpc(recording: Recording, channel: grpc.aio.Channel) -> None:
    export = channel.unary_unary(_EXPORT)
    for body in moved_to(time.time_ns(), recording):
        await export(body)
        await asyncio.sleep(_BETWEEN_REQUESTS_S)


async def _send_http(recording: Recording, http: aiohttp.ClientSession) -> None:
    for body in moved_to(time.time_ns(), recording):
        headers = {"Content-Type": "application/x-protobuf"}
        async with http.post("/v1/traces", data=body, headers=headers, raise_for_status=True):
            await asyncio.sleep(_BETWEEN_REQUESTS_S)
