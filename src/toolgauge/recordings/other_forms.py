"""What a file that is no OTLP looks like: its first bytes in, a hint out.

Exports of other products, compressions we cannot read, and files of ours that another command reads. A wrong guess costs
more than none: each form is known by words or bytes that OTLP does not begin with.
"""

from collections.abc import Mapping

KNOWN_FORMS = (
    "a recording is OTLP: `*.otlp.pb` (one request), `*.otlp` (length-delimited requests) or OTLP JSON"
    " (`*.json`, `*.jsonl`: one request, or one a line), each optionally compressed (`.gz`, `.xz`)"
)

_OTLP = (b'"resourceSpans"', b'"resourceLogs"', b'"resourceMetrics"')
_EXPORT = "it looks like {}, which is not OTLP: let the producer send OTLP to `toolgauge serve`, or record that"
_SPELLING = "OTLP JSON spells its keys in lowerCamelCase: `{}`, not `{}`"
# By what all stand in the beginning; the first that fits.
_TEXTS: Mapping[tuple[bytes, ...], str] = {
    (b'"resource_spans"',): _SPELLING.format("resourceSpans", "resource_spans"),
    (b'"resource_logs"',): _SPELLING.format("resourceLogs", "resource_logs"),
    (b'"evaluator"', b'"actual"'): "these look like offline cases, which `toolgauge score` reads",
    (b'"case"', b'"expected'): "these look like references of a criterion (`reference: {file: ..., key: ...}`)",
    (b'"closed_because"', b'"tool_calls"'): "this looks like output of `toolgauge inspect --json`, not like its input",
    (b'"criterion"', b'"revision"'): "this looks like output of `toolgauge replay --json`, not like its input",
    (b'"SpanKind.',): _EXPORT.format("output of the console exporter of OpenTelemetry's Python SDK"),
    (b'"traceID"', b'"processes"'): _EXPORT.format("an export of Jaeger"),
    (b'"traceID"', b'"operationName"'): _EXPORT.format("an export of Jaeger"),
    (b'"traceId"', b'"localEndpoint"'): _EXPORT.format("an export of Zipkin"),
    (b'"run_type"', b'"trace_id"'): _EXPORT.format("an export of LangSmith"),
    (b'"run_type"', b'"inputs"'): _EXPORT.format("an export of LangSmith"),
    (b'"parentObservationId"',): _EXPORT.format("an export of Langfuse"),
    (b'"traceId"', b'"GENERATION"'): _EXPORT.format("an export of Langfuse"),
    (b'"observations"', b'"projectId"'): _EXPORT.format("an export of Langfuse"),
    (b'"context.span_id"',): _EXPORT.format("an export of Phoenix"),
    (
        b'"role"',
        b'"content"',
    ): "these look like messages of a conversation: `toolgauge score` takes them as `actual.messages`",
    (b"criteria:", b"evaluator:"): "these look like criteria: `toolgauge replay --criteria FILE` takes them",
}
_COMPRESSED = "it is compressed with {0}, which is not read here: unpack it (`{1}`), or use gzip or xz"
_BYTES: Mapping[bytes, str] = {
    b"\x28\xb5\x2f\xfd": _COMPRESSED.format("zstd", "zstd -d FILE"),
    b"BZh": _COMPRESSED.format("bzip2", "bunzip2 FILE"),
    b"PK\x03\x04": _COMPRESSED.format("zip", "unzip FILE"),
    b"SQLite format 3": "it is an SQLite database; a state file of toolgauge holds no recording",
    b"PAR1": _EXPORT.format("a Parquet file"),
}
_COLLECTOR = "it looks like the Collector's file exporter with `{}`: use `format: json` without compression there"


def hint_for(beginning: bytes) -> str | None:
    """Return what the file looks like; `None` when it may be OTLP, or nothing is known of it."""
    if any(key in beginning for key in _OTLP):
        return None
    for magic, hint in _BYTES.items():
        if beginning.startswith(magic):
            return hint
    if _has_collector_frame(beginning):
        return _COLLECTOR.format("compression: zstd" if beginning[4:8] == b"\x28\xb5\x2f\xfd" else "format: proto")
    for words, hint in _TEXTS.items():
        if all(word in beginning for word in words):
            return hint
    return None


def _has_collector_frame(beginning: bytes) -> bool:
    """Return whether four bytes of length, the highest first, stand before a message, as that exporter writes them."""
    return beginning[:1] == b"\0" and beginning[4:5] in (b"\x0a", b"\x28") and int.from_bytes(beginning[:4]) > 0
