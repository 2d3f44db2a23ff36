"""An OpenAI-compatible endpoint on loopback that behaves as badly as it is told."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolgauge.model.json import Json, JsonObject

Manner: TypeAlias = Literal[
    "verdict",
    "hang",
    "die",
    "garbage",
    "huge",
    "drip",
    "limited",
    "broken",
    "text",
    "prose",
    "cut",
    "two",
    "wrong_tool",
    "gzip",
]


@dataclass
class Stub:
    """Answers with `verdicts` in turn, the last one for ever. `manner` may be changed at any time.

    `rejects` are the status and the body of the answer to requests with a key, such as `tools`.
    """

    verdicts: list[Json]
    manner: Manner = "verdict"
    port: int = 0
    requests: list[JsonObject] = field(default_factory=list[JsonObject])
    headers: list[str] = field(default_factory=list[str])
    rejects: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and await self._answered(head.decode(), reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answered(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        length = next(int(line.split(":")[1]) for line in head.lower().split("\r\n") if line.startswith("content-len"))
        body: JsonObject = json.loads(await reader.readexactly(length))
        self.headers.append(head)
        self.requests.append(body)
        manner = self.manner
        for status, said in (answer for key, answer in self.rejects.items() if key in body):
            writer.write(_http(status, said.encode(), ""))
            await writer.drain()
            return True
        match manner:
            case "hang":
                await reader.read()
                return False
            case "die":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                return False
            case "drip":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
                while not writer.is_closing() and not reader.at_eof():
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.01)
                return False
            case _:
                writer.write(_http(*self._reply(manner, _offered(body))))
                await writer.drain()
                return True

    def _reply(self, manner: Manner, tool: str) -> tuple[int, bytes, str]:
        verdict = self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]
        match manner:
            case "garbage":
                return 200, b"<html>", ""
            case "huge":
                return 200, completion({"content": "x" * 1_000_000}), ""
            case "limited":
                self.manner = "verdict"
                return 429, b'{"error": {"message": "slow down"}}', "Retry-After: 1\r\n"
            case "broken":
                return 500, b'{"error": {"message": "prompt and sk-key quoted"}}', ""
            case "text":
                return 200, completion({"content": json.dumps(verdict)}), ""
            case "prose" | "cut":
                return 200, completion({"content": str(verdict)}, "length" if manner == "cut" else "stop"), ""
            case "two":
                return 200, completion({"tool_calls": [_call(tool, verdict), _call(tool, verdict)]}), ""
            case "wrong_tool":
                return 200, completion({"tool_calls": [_call("delete_all", verdict)]}), ""
            case "gzip":
                return 200, b"\x1f\x8b", "Content-Encoding: gzip\r\n"
            case _:
                return 200, completion({"tool_calls": [_call(tool, verdict)]}), ""


def _offered(body: JsonObject) -> str:
    """The name of the tool that takes the verdict."""
    match body.get("tools"):
        case [{"function": {"name": str(name)}}]:
            return name
        case _:
            return ""


def completion(message: JsonObject, finish_reason: str = "stop") -> bytes:
    """A chat completion with one message."""
    return json.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "stub",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish_reason,
                    "message": {"role": "assistant", "content": None, **message},
                }
            ],
            "usage": {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132},
        }
    ).encode()


def _call(name: str, verdict: Json) -> JsonObject:
    arguments = verdict if isinstance(verdict, str) else json.dumps(verdict)
    return {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


def _http(status: int, body: bytes, headers: str) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


@asynccontextmanager
async def stub(*verdicts: Json, manner: Manner = "verdict") -> AsyncGenerator[Stub]:
    serving = Stub(list(verdicts), manner)
    connections: dict[asyncio.StreamWriter, asyncio.Event] = {}

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[writer] = asyncio.Event()
        try:
            await serving.serve(reader, writer)
        finally:
            connections.pop(writer).set()

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    serving.port = server.sockets[0].getsockname()[1]
    try:
        yield serving
    finally:
        server.close()
        over = tuple(connections.values())
        for writer in tuple(connections):
            writer.transport.abort()
        for event in over:
            await event.wait()
