"""A running `toolgauge serve`, senders, and what a scrape says: everything that the tests of the wire share.

Nothing sleeps for a fixed time: `until` asks again until a deadline. Ports are picked by the system.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import gzip
import http.client
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import grpc
from prometheus_client.parser import text_string_to_metric_families

from tests.forked import start

CORPUS = Path(__file__).parent.parent / "corpus"
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Transport: TypeAlias = Literal["grpc", "grpc+gzip", "http", "http+gzip"]
Samples: TypeAlias = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
_T = TypeVar("_T")

LISTEN: tuple[str, ...] = (
    "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
    "receivers.otlp.protocols.http.endpoint=127.0.0.1:0",
    "exporters.prometheus.endpoint=127.0.0.1:0",
    "admin.endpoint=127.0.0.1:0",
    "web.endpoint=127.0.0.1:0",
)
# For a service inside the process of the tests: the memory guard would look at what all of them together use.
IN_TEST = ("memory.limit=64GiB",)
# Trajectories close soon, so that tests do not wait for what production waits for; a pass is an event, too, to be counted.
SOON = (
    "events=scored",
    "assemble.run_end_grace=300ms",
    "assemble.idle_timeout=1s",
    "assemble.open_idle_timeout=2s",
    "metrics.interval=500ms",
)
_BOOKS = ("received", "forwarded", "consumed", "refused", "dropped", "held", "queued")
# Tests run in several processes beside each other, those of one run with numbers of their own (at most eight).
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_FIRST_PORT = 12_000 + (os.getpid() % 25 * 8 + _WORKER % 8) * 100
_PORTS = itertools.cycle(range(_FIRST_PORT, _FIRST_PORT + 100))
_ENDING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
RETRY_SOON = "retry: {initial_interval: 100ms, max_interval: 300ms}"
# On a busy machine a worker may take longer than 30 s to start.
_PATIENT_WITH_WORKERS = {"service.workers.worker_process._KILLED_AFTER": 600}
# How long it tries to send what is queued at its end, which is 24 s.
SENDING_SHORTLY = {"service.service._SENDING_UNTIL_S": 2.0}
# Whatever a busy machine does, it scores and sends all at its end.
PATIENT_END = {
    f"service.service._{deadline}_S": 240.0
    for deadline in ("READING_DEADLINE", "SCORING_DEADLINE", "CLOSING_DEADLINE", "SENDING_UNTIL")
}


def until(wanted: Callable[[], _T | None], what: str, deadline_s: float = 120) -> _T:
    """Ask again until there is an answer that is not empty; `what` says what was waited for.

    The deadline is for machines on which much else runs: a test that passes does not wait for it.
    """
    deadline = time.monotonic() + deadline_s
    pause_s = 0.02
    while True:
        answer = wanted()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(pause_s)
        # Looks cost more than what is waited for, when that takes long.
        pause_s = min(pause_s * 1.2, 0.2)


def until_equal(look: Callable[[], _T], expected: _T, what: str, deadline_s: float = 120) -> None:
    """Look again until this is seen: what a scrape or a destination shows becomes visible piece by piece."""
    try:
        until(lambda: look() == expected, what, deadline_s)
    except AssertionError:
        assert look() == expected, what


def environment(**more: str) -> dict[str, str]:
    """The environment of a process under test: without variables that OpenTelemetry, Python, proxies and colours read.

    `PYTHONPATH` stays: the process imports the same tree as the test, which may be a copy.
    """
    dropped = ("OTEL_", "PYTHON", "NO_COLOR", "FORCE_COLOR")
    kept = {
        key: value
        for key, value in os.environ.items()
        if key == "PYTHONPATH" or not (key.startswith(dropped) or key.lower().endswith("_proxy"))
    }
    return {**kept, **more}


def toolgauge_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "toolgauge", *arguments]


# Enough for the process, and not for what `fill_memory` sends.
LITTLE_MEMORY = "memory.limit=200MiB"


def fill_memory(toolgauge: "Toolgauge", body: bytes) -> None:
    """Send large requests, which must have nowhere to go, until one is refused."""
    # An unknown field: bytes that cost nothing to read.
    large = body + b"\xfa\x7f\x80\x80\x20" + bytes(1 << 19)
    for _ in range(1000):
        if post(toolgauge.http_port, large)[0] == 503:
            return
    raise AssertionError("memory was not short after 500 MiB")


class Process:
    """A process whose two outputs go to one file, so that no pipe can fill up; `stdout` is another place for the first."""

    def __init__(
        self,
        command: list[str],
        output: Path,
        env: Mapping[str, str] | None = None,
        *,
        stdout: int | None = None,
        patched: Mapping[str, float] | None = None,
    ) -> None:
        self.output = output
        self._file = output.open("wb")
        file = self._file.fileno()
        stdout = file if stdout is None else stdout
        self.popen = start(command, stdout=stdout, stderr=file, env=env or environment(), patched=patched)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def is_running(self) -> bool:
        return self.popen.poll() is None

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.popen.send_signal(number)

    def ended(self, within_s: float = 120) -> int:
        """Wait for the end and return the exit code."""
        try:
            return self.popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within_s} s:\n{self.said()}") from None

    def memory_mib(self, figure: str = "VmRSS") -> float:
        """Resident memory now; as `VmHWM` at its peak."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"^{figure}:\s+(\d+) kB", status, re.MULTILINE)
        assert found
        return int(found[1]) / 1024

    def close(self) -> None:
        if self.is_running():
            self.popen.kill()
        self.popen.wait()
        self._file.close()


class Toolgauge(Process):
    """`toolgauge serve` with ports that the system picked."""

    def __init__(
        self,
        folder: Path,
        *settings: str,
        listen: tuple[str, ...] = LISTEN,
        env: Mapping[str, str] | None = None,
        options: tuple[str, ...] = (),
        stdout: int | None = None,
        patched: Mapping[str, float] | None = None,
    ) -> None:
        arguments = ["serve", *options]
        for setting in (*listen, *SOON, *settings):
            arguments += ["--set", setting]
        output = folder / f"toolgauge-{time.monotonic_ns()}.log"
        patched = {**_PATIENT_WITH_WORKERS, **(patched or {})}
        command = toolgauge_command(*arguments)
        super().__init__(command, output, environment(**(env or {})), stdout=stdout, patched=patched)
        self.grpc_port = self.http_port = self.metrics_port = 0

    def wait_until_up(self) -> "Toolgauge":
        """Read the ports from the log, as an operator would."""
        pattern = r"OTLP/gRPC on port (\d+).*OTLP/HTTP on port (\d+).*metrics on port (\d+)"

        def ports() -> re.Match[str] | None:
            assert self.is_running(), self.said()
            return re.search(pattern, self.said(), re.DOTALL)

        found = until(ports, "the ports in the log")
        self.grpc_port, self.http_port, self.metrics_port = (int(port) for port in found.groups())
        return self

    # -- in ---------------------------------------------------------------------------------------------------------

    def send(self, body: bytes, transport: Transport = "grpc", *, path: str = "/v1/traces") -> None:
        """Send one request as an SDK would: again while it is told to come back."""
        protocol, _, compression = transport.partition("+")
        if protocol == "grpc":
            send_grpc(self.grpc_port, body, compressed=bool(compression))
            return

        def taken() -> bool:
            status, _ = post(self.http_port, body, path=path, compressed=bool(compression))
            assert status in (200, 503), status
            return status == 200

        until(taken, "the request to be taken")

    def send_recorded(self, framework: str, scenario: str, transport: Transport = "grpc") -> None:
        for body in recorded(framework, scenario):
            self.send(body, transport)

    # -- what is to be seen from outside ----------------------------------------------------------------------------

    def exposition(self, accept: str = "") -> str:
        return get(self.metrics_port, "/metrics", {"Accept": accept} if accept else {})

    def samples(self) -> Samples:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.exposition())
            for sample in family.samples
        }

    def total(self, name: str) -> float:
        """Add up all series of one metric, without parsing the others."""
        lines = self.exposition().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}[{{ ]", line))

    def books(self) -> dict[str, float]:
        """Read the books from one scrape, without parsing anything else."""
        read: dict[str, float] = dict.fromkeys(_BOOKS, 0.0)
        for state, labels, value in re.findall(
            r"^toolgauge_spans_(total|held|queued)(\{.*\})? (\S+)$", self.exposition(), re.MULTILINE
        ):
            outcome = re.search(r'toolgauge_outcome="(\w+)"', labels)
            read[outcome[1] if outcome else state] += float(value)
        return read

    def assert_books_balance(self) -> dict[str, float]:
        books = self.books()
        assert books["received"] == sum(value for key, value in books.items() if key != "received"), books
        return books

    def settled(self, spans: int, deadline_s: float = 120) -> dict[str, float]:
        """Wait until all spans have come in and gone; the books must balance at every look."""

        def gone() -> dict[str, float] | None:
            books = self.assert_books_balance()
            return books if books["received"] >= spans and not books["held"] + books["queued"] else None

        return until(gone, "all spans to have gone", deadline_s)


@contextlib.contextmanager
def serving(
    folder: Path,
    *settings: str,
    env: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    stdout: int | None = None,
    patched: Mapping[str, float] | None = None,
) -> Generator[Toolgauge]:
    """Run one toolgauge; at the end it must stop in order, unless the test ended it."""
    with contextlib.closing(
        Toolgauge(folder, *settings, env=env, options=options, stdout=stdout, patched=patched)
    ) as toolgauge:
        yield toolgauge.wait_until_up()
        if toolgauge.is_running():
            toolgauge.signal()
            toolgauge.ended()
        assert "Traceback" not in toolgauge.said()


def to_grpc(port: int, *more: str) -> str:
    """The setting that sends on over gRPC."""
    return _exporter(f'endpoint: "127.0.0.1:{port}"', *more)


def to_http(port: int, *more: str) -> str:
    """The setting that sends on over HTTP."""
    return _exporter(f'endpoint: "http://127.0.0.1:{port}"', "protocol: http", *more)


def _exporter(*keys: str) -> str:
    return f"exporters.otlp={{{', '.join((*keys, RETRY_SOON))}}}"


def long_ago() -> int:
    """Return when traffic ended that was recorded before senders' retries: later runs may have begun with an earlier process."""
    return time.time_ns() - 1_200_000_000_000


def recorded(framework: str, scenario: str) -> list[bytes]:
    """The requests with spans of one recorded scenario, in the order in which they were sent."""
    files = sorted(file for file in (CORPUS / framework).glob(f"{scenario}*.otlp.pb") if ".logs." not in file.name)
    assert files, f"no recording {framework}/{scenario}"
    return [file.read_bytes() for file in files]


def send_grpc(port: int, body: bytes, *, compressed: bool = False, deadline_s: float = 60) -> None:
    """Send, and send again while the answer is one that a server gives as it ends: OTLP's senders repeat on both."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]) as channel:
        export = channel.unary_unary(TRACES)
        compression = grpc.Compression.Gzip if compressed else None

        def taken() -> bool:
            try:
                export(body, timeout=deadline_s, compression=compression)
            except grpc.RpcError as error:
                if error.code() in _ENDING:  # pyright: ignore[reportAttributeAccessIssue]
                    return False
                raise
            return True

        until(taken, "the request to be taken", deadline_s)


def post(
    port: int,
    body: bytes,
    *,
    path: str = "/v1/traces",
    compressed: bool = False,
    content_type: str = "application/x-protobuf",
) -> tuple[int, bytes]:
    headers = {"Content-Type": content_type}
    if compressed:
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    return request(port, "POST", path, body, headers)


def get(port: int, path: str, headers: Mapping[str, str] | None = None) -> str:
    status, body = request(port, "GET", path, None, headers or {})
    assert status == 200
    return body.decode()


def request(port: int, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def free_port() -> int:
    """Find a port that stays free: below those that the system picks, and of a range of this process alone."""
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("endless")


def threads_beside_main() -> set[threading.Thread]:
    """All threads but the main one and those that a test's event loop lends work to, which end with it."""
    threads = set(threading.enumerate()) - {threading.main_thread()}
    return {thread for thread in threads if not thread.name.startswith("asyncio_")}
