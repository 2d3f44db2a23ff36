# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# JSON of other people's protocols has no types.
"""Writes what a producer exported, and beside it the truth: what the model asked for and what really ran.

Stack traces are cut to their first lines, and the names of this machine and its folders are replaced.
"""

import ast
import itertools
import json
import os
import re
import socket
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.producers.stub.recording import Asking, Recording, outcome

_REQUESTS = {"traces": ExportTraceServiceRequest, "logs": ExportLogsServiceRequest}
_TRACE_LINES = re.compile(r"(\n[ \t]+(?:at|File) [^\n]*(?:\n[ \t]+[^\n]*){2})(?:\n[ \t]+[^\n]*)+")
_MACHINE = Path("/etc/machine-id").read_text().strip() if Path("/etc/machine-id").exists() else ""
_FOLDER = re.compile(r"(?:file://)?/(?:tmp|root|home|work)/[^\s:'\"),\\]*/")


def write(recording: Recording, folder: Path) -> dict[str, Any]:
    """Write all files of the scenario into the folder and return the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    name = recording.scenario.name
    for old in folder.glob(f"{name}.*"):
        old.unlink()
    files: list[str] = []
    requests: list[tuple[str, Message]] = []
    sanitized: list[str] = []
    for signal, number, body in _numbered(recording.exports):
        request = _REQUESTS[signal]()
        request.ParseFromString(body)
        file = name + number + (".logs" if signal == "logs" else "") + ".otlp.pb"
        is_private = _sanitize(request)
        if is_private:
            sanitized.append(file)
        (folder / file).write_bytes(request.SerializeToString() if is_private else body)
        files.append(file)
        requests.append((signal, request))
    truth = _truth(recording, _Capture(requests)) | {"files": files, "sanitized_files": sanitized}
    (folder / f"{name}.truth.json").write_text(json.dumps(truth, ensure_ascii=False, indent=1) + "\n")
    return truth


def _numbered(exports: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, str, bytes]]:
    several = {signal: sum(one == signal for one, _ in exports) > 1 for signal in _REQUESTS}
    counts = {signal: itertools.count(1) for signal in _REQUESTS}
    for signal, body in exports:
        yield signal, f".{next(counts[signal]):02d}" if several[signal] else "", body


# --- what is private or long


def _sanitize(message: Message) -> bool:
    changed = False
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            new = [_plain(one) for one in value] if field.is_repeated else _plain(value)
            if new != (list(value) if field.is_repeated else value):
                changed = True
                _set(message, field.name, new)
        elif field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                changed |= _sanitize(one)
    return changed


def _set(message: Message, name: str, value: Any) -> None:
    if isinstance(value, list):
        message.ClearField(name)
        getattr(message, name).extend(value)
    else:
        setattr(message, name, value)


def _plain(text: str) -> str:
    short = _FOLDER.sub("/app/", _TRACE_LINES.sub(r"\1", text))
    for private in (socket.gethostname(), os.environ.get("USER", ""), _MACHINE):
        if len(private) > 4:
            short = short.replace(private, "host")
    return short


# --- the truth


class _Capture:
    """What is anywhere in the exported messages, by a generous search."""

    def __init__(self, requests: Sequence[tuple[str, Message]]) -> None:
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.spans: list[dict[str, Any]] = []
        self.log_records: list[dict[str, Any]] = []
        self._values: set[str] = set()
        for signal, request in requests:
            whole = MessageToDict(request)
            self._walk(whole)
            if signal == "traces":
                self.spans += [
                    span
                    for resource in whole.get("resourceSpans", [])
                    for scope in resource.get("scopeSpans", [])
                    for span in scope.get("spans", [])
                ]
            else:
                self.log_records += [
                    record
                    for resource in whole.get("resourceLogs", [])
                    for scope in resource.get("scopeLogs", [])
                    for record in scope.get("logRecords", [])
                ]
        self.raw = "\n".join(self.texts)

    def has_text(self, text: str) -> bool:
        return text in self.raw or json.dumps(text)[1:-1] in self.raw

    def has_name(self, name: str) -> bool:
        """Look for a tool's name, or for the parts of `mcp__server__tool`."""
        parts = name.split("__")
        return self.has_text(name) or (parts[0] == "mcp" and all(f'"{part}"' in self.raw for part in parts[1:]))

    def has_value(self, value: Any) -> bool:
        if _canonical(value) in self._values or value == {}:
            return True
        leaves = [leaf for leaf in _leaves(value) if leaf not in (None, "")] + (
            list(value) if isinstance(value, dict) else []
        )
        return bool(leaves) and any(all(_in(leaf, text) for leaf in leaves) for text in self.texts)

    def keys_of(self, text: str) -> list[str]:
        return sorted({key for key, value in self.attributes if value == text})

    def spans_with(self, text: str) -> list[str]:
        return [_hex(span["spanId"]) for span in self.spans if any(one == text for one in _attribute_texts(span))]

    def traces(self) -> list[tuple[str, int, str]]:
        """Return each trace with its earliest start and all of its text; without spans, each session of the log records."""
        found: dict[str, tuple[int, list[str]]] = {}
        if self.spans:
            parts = [(_hex(span["traceId"]), int(span.get("startTimeUnixNano", 0)), span) for span in self.spans]
        else:
            parts = [(_session(one), int(one.get("timeUnixNano", 0)), one) for one in self.log_records if _session(one)]
        for name, start, part in parts:
            earliest, texts = found.setdefault(name, (start, []))
            texts.append(json.dumps(part, ensure_ascii=False))
            found[name] = min(earliest, start), texts
        return sorted(((one, start, "\n".join(texts)) for one, (start, texts) in found.items()), key=lambda one: one[1])

    def _walk(self, value: Any) -> None:
        match value:
            case {"key": str(key), "value": dict(inner)}:
                self.attributes.append((key, str(inner.get("stringValue", ""))))
                self._walk(inner)
            case {"kvlistValue": dict(inner)}:
                self._found(_plain_value(value))
                self._walk(inner)
            case dict():
                for one in value.values():
                    self._walk(one)
            case list():
                for one in value:
                    self._walk(one)
            case str():
                self.texts.append(value)
                self._found(_opened(value))
            case _:
                pass

    def _found(self, value: Any) -> None:
        if isinstance(value, str):
            if (inner := _opened(value)) != value:
                self._found(inner)
            return
        if isinstance(value, dict | list):
            self._values.add(_canonical(value))
            for one in value.values() if isinstance(value, dict) else value:
                if isinstance(one, str):
                    self.texts.append(one)
                self._found(one)


def _opened(text: str) -> Any:
    if text[:1] not in "{[\"'":
        return text
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text


def _plain_value(value: Mapping[str, Any]) -> Any:
    kind, inner = next(iter(value.items()), ("", None))
    match kind:
        case "kvlistValue":
            return {one["key"]: _plain_value(one.get("value", {})) for one in (inner or {}).get("values", [])}
        case "arrayValue":
            return [_plain_value(one) for one in (inner or {}).get("values", [])]
        case "intValue":
            return int(inner or 0)
        case _:
            return inner


def _attribute_texts(span: Mapping[str, Any]) -> list[str]:
    return [str(one.get("value", {}).get("stringValue")).strip('"') for one in span.get("attributes", [])]


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value))
    return json.dumps(value)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in _leaves(one)]
    if isinstance(value, list):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value]


def _in(leaf: Any, text: str) -> bool:
    if isinstance(leaf, str):
        return leaf in text or json.dumps(leaf)[1:-1] in text
    return any(
        written in text
        for written in {str(leaf), json.dumps(leaf), f"{leaf:g}" if isinstance(leaf, float) else str(leaf)}
    )


# What log events name their session by.
_SESSION_KEYS = ("session.id", "ulid")


def _session(record: Mapping[str, Any]) -> str:
    """Return a log record's trace, else its session."""
    if record.get("traceId"):
        return _hex(record["traceId"])
    values = (one.get("value", {}) for one in record.get("attributes", []) if one.get("key") in _SESSION_KEYS)
    return str(next(values, {}).get("stringValue", ""))


def _hex(base64_id: str) -> str:
    return b64decode(base64_id).hex()


def _truth(recording: Recording, capture: _Capture) -> dict[str, Any]:
    one = recording.scenario
    traces = _traces(recording, capture)
    conversation = one.conversation_id
    keys = capture.keys_of(conversation) if conversation else []
    return {
        "framework": recording.producer,
        "scenario": one.name,
        "versions": dict(recording.versions),
        "conversation_id": conversation,
        "conversation_id_in_capture": capture.has_text(conversation) if conversation else None,
        "conversation_id_keys": keys,
        "convention": recording.convention,
        "note": recording.note,
        "traces": traces,
    }


def _traces(recording: Recording, capture: _Capture) -> list[dict[str, Any]]:
    """Give each trace to the run during which it began; the one that shows most of the run's calls stands for all."""
    runs: list[list[tuple[str, int, str]]] = [[] for _ in recording.scenario.runs]
    for trace in capture.traces():
        # Spans of a run may be a little older than the message that starts it.
        begun = sum(start <= trace[1] + 5_000_000 for start in recording.run_starts)
        runs[min(max(begun, 1), len(runs)) - 1].append(trace)
    found: list[dict[str, Any]] = []
    for number, (script, traces) in enumerate(zip(recording.scenario.runs, runs, strict=True)):
        calls = [asked for asked in recording.calls if asked.run == number]
        ordered = sorted(traces, key=lambda trace: -_shown(trace[2], calls, script.text))
        ids = [trace[0] for trace in ordered]
        truth: dict[str, Any] = {"trace_id": ids[0] if ids else None}
        if len(ids) > 1:
            truth["other_trace_ids"] = ids[1:]
        failed = recording.run_errors.get(number)
        truth |= {"user_message": script.text, "final_text": None if failed else script.final, "run_error": failed}
        truth["tool_calls"] = [_call(order, asked, capture) for order, asked in enumerate(calls)]
        if recording.scenario.control and not failed:
            truth["tool_calls"].append(_control(recording.scenario.control, script.final, truth["tool_calls"]))
        found.append(truth)
    return [one for one in found if one["trace_id"]]


def _shown(text: str, calls: Sequence[Asking], user: str) -> int:
    return sum(asked.made.call.name in text for asked in calls) + (user in text)


def _call(order: int, asked: Asking, capture: _Capture) -> dict[str, Any]:
    call = asked.made.call
    ran = asked.executed or call.kind != "function" or call.is_own
    returned = outcome(call).get("result") if asked.executed or call.is_own else None
    result = call.result if call.kind == "agent_as_tool" else returned
    error = {"type": call.error[0], "message": call.error[1]} if call.error and ran else None
    call_id = asked.made.id if capture.has_text(asked.made.id) else None
    arguments = call.arguments if isinstance(call.arguments, str) else dict(call.arguments)
    shown = capture.has_text(arguments) if isinstance(arguments, str) else capture.has_value(arguments)
    truth: dict[str, Any] = {
        "name": call.name,
        "arguments": arguments,
        "result": None if error else result,
        "error": error,
        "call_id": call_id,
        "order": order,
        "turn": asked.turn,
        "agent": asked.agent,
        "kind": call.kind,
        "executed": ran,
        "rejected": not ran,
        "in_capture": {
            # A name that another call has too shows nothing of this one.
            "name": capture.has_name(call.name) and (bool(call_id) or shown or ran),
            "arguments": shown,
            "result": None if error or result is None else _has_result(result, capture),
            "call_id": True if call_id else None,
            "error": capture.has_text(error["message"]) if error else None,
        },
        "tool_span_ids": capture.spans_with(call_id) if call_id else [],
    }
    if asked.executed and asked.ran_with != call.arguments:
        truth["effective_arguments"] = asked.ran_with
    return truth


def _control(control: Mapping[str, Any], final: str, before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the framework's own call that ends a run."""
    arguments = {name: final if value == "FINAL" else value for name, value in control["arguments"].items()}
    last: Mapping[str, Any] = before[-1] if before else {"order": -1, "turn": -1, "agent": "assistant"}
    return {
        "name": control["name"],
        "arguments": arguments,
        "result": None,
        "error": None,
        "call_id": None,
        "order": last["order"] + 1,
        "turn": last["turn"] + 1,
        "agent": last["agent"],
        "kind": "function",
        "control": True,
        "executed": True,
        "rejected": False,
        "in_capture": {"name": True, "arguments": True, "result": None, "call_id": None, "error": None},
        "tool_span_ids": [],
    }


def _has_result(result: Any, capture: _Capture) -> bool:
    return capture.has_text(result) if isinstance(result, str) else capture.has_value(result)
