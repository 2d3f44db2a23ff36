"""Runs the stub: scripted models, an OTLP/HTTP sink, and the tools of the scenarios, on one loopback port.

    .venv-test/bin/python -m tests.producers.stub --port 21500 --out tests/corpus

An application begins a scenario (`POST /stub/begin`), says before each run that it starts (`POST /stub/run`), runs its
tools by `POST /stub/tools/NAME`, and ends (`POST /stub/end`) when it has flushed its exporter.
"""

import argparse
import gzip
import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.producers.stub import openai_api, other_apis
from tests.producers.stub.answers import Answer, Asked
from tests.producers.stub.exports import write
from tests.producers.stub.recording import Recording, begin, description
from toolgauge.otlp.otlp_json import request_from_json

# How long no export arrives before a scenario is over, and how long that is waited for, in seconds.
_QUIET, _LONGEST = 0.5, 20.0


class Stub:
    """What the handlers of all connections share."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.lock = threading.Lock()
        self.recording: Recording | None = None

    def answer(self, asked: Asked, body: str) -> Answer:
        """Let the scripted model answer."""
        with self.lock:
            if self.recording is None:
                return Answer(id="none", model=asked.model, text="Done.", calls=(), script=None, step=0)
            answer = self.recording.model.answer(asked, body)
            self.recording.serve(answer)
            return answer

    def control(self, words: list[str], body: Any) -> dict[str, Any]:
        """Do what an application asks of the stub itself."""
        match words:
            case ["begin"]:
                self.recording = begin(body)
                return description(self.recording.scenario)
            case ["run"] if self.recording:
                self.recording.start_run()
                return {}
            case ["failed"] if self.recording:
                self.recording.fail_run(str(body))
                return {}
            case ["tools", name] if self.recording:
                with self.lock:
                    return self.recording.execute(name, body)
            case ["end"] if self.recording:
                done, self.recording = self.recording, None
                done.wait(_QUIET, _LONGEST)
                return write(done, self.out / done.producer)
            case _:
                raise ValueError("no such step, or no scenario under way")


class Handler(BaseHTTPRequestHandler):
    """One connection: a model's client, an exporter or an application."""

    protocol_version = "HTTP/1.1"
    stub: Stub

    def do_GET(self) -> None:
        """Answer what clients look up before they ask: the list of models."""
        self._json({"object": "list", "data": [{"id": "stub-model", "object": "model"}]})

    def do_POST(self) -> None:
        """Answer a model request, an export, or a step of an application."""
        try:
            self._post(self._body())
        except (ValueError, KeyError, TypeError) as error:
            self._json({"error": {"message": f"{type(error).__name__}: {error}"}}, status=400)

    def _post(self, body: bytes) -> None:
        path = urlsplit(self.path).path
        words = [unquote(word) for word in path.strip("/").split("/")]
        if words[-1] in ("traces", "logs", "metrics"):
            self._export(words[-1], body)
        elif words[0] == "stub":
            self._json(self.stub.control(words[1:], json.loads(body or b"null")))
        else:
            self._model(words, body)

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def _export(self, signal: str, body: bytes) -> None:
        is_json = "json" in self.headers.get("Content-Type", "")
        if self.stub.recording and signal in ("traces", "logs"):
            self.stub.recording.export(signal, request_from_json(signal, body) if is_json else body)
        self._send(b"{}" if is_json else b"", "application/json" if is_json else "application/x-protobuf")

    def _model(self, words: list[str], raw: bytes) -> None:
        body = json.loads(raw)
        text = raw.decode()
        last = words[-1]
        model = words[-2] if len(words) > 1 else ""
        match last:
            case "completions":
                self._talk(openai_api.chat_asked(body), text, openai_api.chat, openai_api.chat_events)
            case "responses":
                self._talk(openai_api.response_asked(body), text, openai_api.response, openai_api.response_events)
            case "messages":
                self._talk(other_apis.anthropic_asked(body), text, other_apis.anthropic, other_apis.anthropic_events)
            case "resolve" | "token" | "start":
                # What the SDKs of tracing services ask their service before they export.
                self._json({"project_id": "project-1", "session_id": "session-1", "token": "none"})
            case "count_tokens":
                self._json({"input_tokens": 40})
            case "converse" | "converse-stream":
                asked = other_apis.converse_asked(body, model=model, stream=last != "converse")
                self._talk_aws(asked, text, other_apis.converse, other_apis.converse_events)
            case "invoke" | "invoke-with-response-stream":
                plain = other_apis.anthropic_asked(body)
                asked = Asked(messages=plain.messages, model=model, stream=last != "invoke")
                self._talk_aws(asked, text, other_apis.anthropic, other_apis.invoke_events)
            case _:
                self._gemini(last, body, text)

    def _gemini(self, last: str, body: Any, text: str) -> None:
        model, _, method = last.partition(":")
        if method not in ("generateContent", "streamGenerateContent"):
            raise ValueError(f"no protocol has the path {self.path}")
        asked = other_apis.gemini_asked(body, model=model, stream=method.startswith("stream"))
        if asked.stream and "alt=sse" not in self.path:
            answer = self.stub.answer(asked, text)
            self._json([event for _, event in other_apis.gemini_events(answer)])
        else:
            self._talk(asked, text, other_apis.gemini, other_apis.gemini_events)

    def _talk(
        self,
        asked: Asked,
        text: str,
        whole: Callable[[Answer], dict[str, Any]],
        events: Callable[[Answer], Iterable[tuple[str | None, Any]]],
    ) -> None:
        answer = self.stub.answer(asked, text)
        if not asked.stream:
            self._json(whole(answer))
            return
        lines: list[str] = []
        for name, event in events(answer):
            shown = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
            lines.append((f"event: {name}\n" if name else "") + f"data: {shown}\n\n")
        self._send("".join(lines).encode(), "text/event-stream")

    def _talk_aws(
        self,
        asked: Asked,
        text: str,
        whole: Callable[[Answer], dict[str, Any]],
        events: Callable[[Answer], Iterable[tuple[str, Mapping[str, Any]]]],
    ) -> None:
        answer = self.stub.answer(asked, text)
        if not asked.stream:
            self._json(whole(answer))
            return
        frames = b"".join(other_apis.event_stream_frame(name, event) for name, event in events(answer))
        self._send(frames, "application/vnd.amazon.eventstream")

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value, ensure_ascii=False).encode(), "application/json", status)

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Name each request on stderr."""
        sys.stderr.write(f"{self.command} {self.path} {args[1] if len(args) > 1 else format}\n")


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Scripted models and an OTLP sink, for captures of producers.")
    parser.add_argument("--port", type=int, default=21500)
    parser.add_argument("--out", type=Path, default=Path("tests/corpus"))
    options = parser.parse_args()
    Handler.stub = Stub(options.out)
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
