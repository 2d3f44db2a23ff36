"""Reads recorded traffic from files, in order of recorded time, and sends it through the pipeline of live traffic.

Files given together are one recording. Their first bytes show the compression: names may be wrong or missing.
"""

import gzip
import heapq
import io
import logging
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from toolgauge.model.delivery import Accepted, Signal
from toolgauge.model.errors import DecodeError, RecordingError
from toolgauge.model.outcomes import Scorecard
from toolgauge.otlp.otlp_json import requests_from_json
from toolgauge.otlp.request import newest_time_ns, signal_and_body
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import ObservedSink, ScorecardSink

_LOG = logging.getLogger("toolgauge.offline")
STDIN = "-"
# What reading may raise.
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)

_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"


def opened(file: str) -> io.BufferedReader:
    """Open a file as it is; `-` is standard input, which stays open."""
    if file == STDIN:
        # A copy of the descriptor: closing it must not close standard input.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    return Path(file).open("rb")


def decompressed(source: io.BufferedReader) -> io.BufferedReader | gzip.GzipFile | lzma.LZMAFile:
    """Return a stream of the decompressed content; closing it leaves a compressed `source` open."""
    beginning = source.peek(len(_XZ))
    if beginning.startswith(_GZIP):
        return gzip.open(source)
    return lzma.open(source) if beginning.startswith(_XZ) else source


_ENDINGS = (".otlp.pb", ".otlp", ".json", ".jsonl")
_COMPRESSIONS = (".gz", ".xz")
_MAX_REQUEST_BYTES = 1 << 30
_SNIFFED_BYTES = 1 << 16
_OTLP_KEYS = (b'"resourceSpans"', b'"resourceLogs"', b'"resourceMetrics"')
_KNOWN_FORMS = (
    "a recording is OTLP: `*.otlp.pb` (one request), `*.otlp` (length-delimited requests) or OTLP JSON"
    " (`*.json`, `*.jsonl`: one request, or one a line), each optionally compressed (`.gz`, `.xz`)"
)
# A request, or why it cannot be read.
_Found: TypeAlias = tuple[Signal, bytes] | str
# Gets a file of which something is not read, and the reason.
Skip: TypeAlias = Callable[[str, str], object]


@dataclass(frozen=True, slots=True, order=True)
class RecordedRequest:
    """One export request. `time_ns` is when it can have been sent, never before the request ahead of it in its file."""

    time_ns: int
    signal: Signal
    body: bytes


def find_files(paths: Sequence[str]) -> list[str]:
    """Expand directories to the recordings in them; `-` is standard input. Raise `RecordingError` for a wrong path."""
    files: list[str] = []
    for path in paths:
        if path == STDIN:
            files.append(path)
            continue
        place = Path(path)
        if not place.exists():
            raise RecordingError(f"no such file: `{path}`")
        if not place.is_dir():
            files.append(path)
            continue
        found = sorted(str(file) for file in place.rglob("*") if is_recording(file))
        if not found:
            hint = f"looked for {', '.join(f'`*{ending}`' for ending in _ENDINGS)}"
            raise RecordingError(f"no recordings in directory `{path}`", hint=hint)
        files.extend(found)
    return files


def read(files: Sequence[str], progress: Callable[[int], None], skip: Skip | None = None) -> Iterator[RecordedRequest]:
    """Yield the requests of all files in order of recorded time; `progress` gets the size of each request in bytes.

    Raise `RecordingError` for a file that cannot be read, unless there is `skip`.
    """

    def requests(file: str) -> Iterator[RecordedRequest]:
        try:
            yield from _requests(file, skip or (lambda _file, reason: _LOG.warning("warning: %s", reason)))
        except RecordingError as error:
            if skip is None:
                raise
            skip(file, error.message)

    single = [file for file in files if _without_compression(file).endswith(".otlp.pb")]
    streams = [requests(file) for file in files if file not in set(single)]
    # Files of one request are read twice, so that a large folder is never in memory as a whole.
    times = sorted(((request.time_ns, file) for file in single for request in requests(file)), key=lambda one: one[0])
    by_time = (request for _, file in times for request in requests(file))
    for request in heapq.merge(by_time, *streams, key=lambda request: request.time_ns):
        progress(len(request.body))
        yield request


def is_recording(file: Path) -> bool:
    """Return whether a file of a directory is read as a recording: by its name, and JSON by its beginning."""
    if not file.is_file() or not file.stat().st_size:
        return False
    name = _without_compression(file.name)
    if not name.endswith((".json", ".jsonl")):
        return name.endswith(_ENDINGS)
    try:
        with opened(str(file)) as source, decompressed(source) as stream:
            beginning = stream.read(_SNIFFED_BYTES)
    except UNREADABLE:
        return True  # reading it will name the problem
    return any(key in beginning for key in _OTLP_KEYS)


def _without_compression(name: str) -> str:
    for ending in _COMPRESSIONS:
        name = name.removesuffix(ending)
    return name


def _requests(file: str, skip: Skip) -> Iterator[RecordedRequest]:
    """Yield the requests of a file; skip an unreadable one, or raise `RecordingError` where no request with a time follows."""
    newest = 0
    is_otlp = False
    first_problem: str | None = None
    for position, found in enumerate(_bodies(file, skip), start=1):
        problem = request = None
        if isinstance(found, str):
            problem = found
        else:
            try:
                newest = max(newest, newest_time_ns(*found))
                request = RecordedRequest(newest, *found)
            except DecodeError as error:
                problem = f"`{file}`, request {position}: not an OTLP request ({error})"
        if newest:
            for skipped in filter(None, (first_problem, problem)):
                skip(file, f"{skipped}: it was left out")
            first_problem = None
        else:
            first_problem = first_problem or problem
        if request is not None and first_problem is None:
            yield request
            is_otlp = True
    if first_problem is not None:
        raise RecordingError(first_problem, hint=None if is_otlp else _KNOWN_FORMS)


def _bodies(file: str, skip: Skip) -> Iterator[_Found]:
    name = _without_compression(file)
    shown = "standard input" if file == STDIN else f"`{file}`"
    signal: Signal = "logs" if name.endswith((".logs.otlp.pb", ".logs.otlp")) else "traces"
    try:
        with opened(file) as source, decompressed(source) as stream:
            if not stream.peek(1):
                raise RecordingError(f"{shown} is empty", hint="nothing was recorded in it")
            if name.endswith(".otlp.pb"):
                yield signal, stream.read()
            elif name.endswith((".json", ".jsonl")):
                yield from _json_bodies(file, stream)
            elif name.endswith(".otlp"):
                yield from _delimited(file, signal, stream, skip)
            else:
                yield from _sniffed(file, stream, skip)
    except UNREADABLE as error:
        raise RecordingError(f"cannot read `{file}`: {error}") from error


def _json_bodies(file: str, stream: io.BufferedIOBase) -> Iterator[_Found]:
    """Read one document, or one a line: a first line that is a document by itself decides."""
    number, first = next(((number, line) for number, line in enumerate(stream, 1) if line.strip()), (1, b""))
    documents = [(number, first)]
    if not first.rstrip().endswith(b"}") or first.strip() == b"{":
        documents = [(number, first + stream.read())]
    for place, text in chain(documents, enumerate(stream, number + 1)):
        if place == number or text.strip():
            try:
                yield from requests_from_json(text)
            except DecodeError as error:
                yield f"`{file}`, line {place}: not OTLP JSON ({error})"


def _delimited(file: str, signal: Signal, stream: io.BufferedIOBase, skip: Skip) -> Iterator[tuple[Signal, bytes]]:
    position = 0
    try:
        while (size := _varint(stream)) is not None:
            if size > _MAX_REQUEST_BYTES:
                text = f"`{file}` is not a stream of length-delimited OTLP requests"
                raise RecordingError(text, hint=None if position else _KNOWN_FORMS)
            body = stream.read(size)
            if len(body) < size:
                raise EOFError
            position += 1
            of, body = signal_and_body(body, signal)
            # Metrics hold no tool calls.
            if of != "metrics":
                yield of, body
    except EOFError:
        # The recording process was killed, or is still writing.
        text = f"`{file}` is cut off in request {position + 1}"
        if not position:
            raise RecordingError(text, hint=_KNOWN_FORMS) from None
        skip(file, f"{text}: the requests before it were read")


def _varint(stream: io.BufferedIOBase) -> int | None:
    """Read the size of a request; `None` at the end."""
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            if shift:
                raise EOFError
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            break
    return value


def _sniffed(file: str, stream: io.BufferedIOBase, skip: Skip) -> Iterator[_Found]:
    """Find the format of a file from its content where its name does not show it."""
    data = stream.read()
    if data.lstrip()[:1] == b"{":
        yield from _json_bodies(file, io.BytesIO(data))
        return
    try:
        newest_time_ns("traces", data)
    except DecodeError:
        yield from _delimited(file, "traces", io.BytesIO(data), skip)
        return
    yield "traces", data


def scorecards(recording: Iterable[RecordedRequest], make: Callable[[ScorecardSink], Pipeline]) -> Iterator[Scorecard]:
    """Yield the scorecards of a recording in the order in which its trajectories close, as they would have closed live."""
    closed: list[Scorecard] = []
    pipeline = make(ObservedSink(None, closed.append))
    now_ns = 0
    for request in recording:
        now_ns = max(now_ns, request.time_ns)
        yield from _until(pipeline, closed, now_ns)
        answer = pipeline.consume(request.signal, request.body, now_ns)
        if not isinstance(answer, Accepted):
            raise RecordingError(f"a recorded request was not accepted: {answer.message}")
    yield from _until(pipeline, closed, None)


def _until(pipeline: Pipeline, closed: list[Scorecard], now_ns: int | None) -> Iterator[Scorecard]:
    while (due := pipeline.next_due_ns) is not None and (now_ns is None or due <= now_ns):
        while pipeline.tick(due):
            pass
        pipeline.flush()
        yield from closed
        closed.clear()
