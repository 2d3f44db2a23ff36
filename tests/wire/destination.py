"""A destination inside the test: OTLP over gRPC and HTTP on threads of its own, keeping all that arrives."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import gzip
import http.server
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.http_server import Quiet, answering

SERVICES = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
}


class Destination:
    """What arrived, and where to send to."""

    def __init__(self) -> None:
        # Over gRPC: it answers UNAVAILABLE then.
        self.is_away = False
        self.grpc_port = 0
        self.http_port = 0
        self._requests: list[tuple[str, bytes]] = []
        self._lock = threading.Lock()

    def take(self, signal: str, body: bytes) -> None:
        """Keep the request."""
        with self._lock:
            self._requests.append((signal, body))

    def bodies(self, signal: str) -> list[bytes]:
        with self._lock:
            return [body for arrived, body in self._requests if arrived == signal]

    def spans(self) -> list[Span]:
        """Senders' spans."""
        return [span for scope, span in self._scoped() if scope != "toolgauge"]

    def scorecards(self) -> list[Span]:
        return [span for scope, span in self._scoped() if scope == "toolgauge"]

    def events(self) -> list[LogRecord]:
        return [
            record
            for body in self.bodies("logs")
            for group in ExportLogsServiceRequest.FromString(body).resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]

    def metrics(self) -> dict[str, Metric]:
        """The newest state of each metric."""
        return {
            metric.name: metric
            for body in self.bodies("metrics")
            for group in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in group.scope_metrics
            for metric in scope.metrics
        }

    def _scoped(self) -> Iterator[tuple[str, Span]]:
        for body in self.bodies("traces"):
            try:
                request = ExportTraceServiceRequest.FromString(body)
            except DecodeError:  # hostile spans go on as they are: whoever stores them decides
                continue
            for group in request.resource_spans:
                for scope in group.scope_spans:
                    for span in scope.spans:
                        yield scope.scope.name, span


def attributes(record: Span | LogRecord | Span.Event) -> dict[str, object]:
    return {attribute.key: plain(attribute.value) for attribute in record.attributes}


def plain(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


def without_scores(span: Span) -> bytes:
    """The span as it was sent, for comparison."""
    stripped = Span.FromString(span.SerializeToString())
    kept = [attribute for attribute in stripped.attributes if not attribute.key.startswith("toolgauge.")]
    del stripped.attributes[:]
    stripped.attributes.extend(kept)
    return stripped.SerializeToString(deterministic=True)


class _Methods(grpc.GenericRpcHandler):
    def __init__(self, destination: Destination) -> None:
        self._destination = destination

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        signal = SERVICES.get(handler_call_details.method)
        return grpc.unary_unary_rpc_method_handler(self._export(signal)) if signal else None

    def _export(self, signal: str) -> "Callable[[bytes, grpc.ServicerContext], bytes]":
        destination = self._destination

        def export(body: bytes, context: grpc.ServicerContext) -> bytes:
            if destination.is_away:
                context.abort(grpc.StatusCode.UNAVAILABLE, "away")
            destination.take(signal, body)
            return b""

        return export


def _handler(take: Callable[[str, bytes], None]) -> type[http.server.BaseHTTPRequestHandler]:
    class Receive(Quiet, http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            take(self.path.rpartition("/")[2], body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Receive


@contextlib.contextmanager
def receiving() -> Generator[Destination]:
    """Run a destination on both transports."""
    destination = Destination()
    pool = ThreadPoolExecutor(4)
    # All of its threads begin here: one that began in a test would seem to be left behind by it.
    begun = threading.Barrier(5)
    for _ in range(4):
        pool.submit(begun.wait)
    begun.wait()
    server = grpc.server(pool, options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((_Methods(destination),))
    destination.grpc_port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with answering(_handler(destination.take)) as url:
            destination.http_port = int(url.rpartition(":")[2])
            yield destination
    finally:
        server.stop(0).wait()
        pool.shutdown()
