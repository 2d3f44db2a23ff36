"""One recording a test: a file whose name comes from the id of the test, and which every command reads that reads traffic."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.otlp.request import framed
from toolgauge.pytest_plugin.collector import Request

_ENDING = ".otlp"
_MAX_NAME = 160
_DIGITS = 10
# Such ids give names that no other test has. The patterns of one id never overlap: `::` and brackets part them.
_PLAIN = re.compile(r"[\w-]+(?:/[\w-]+)*\.py(?:::[A-Za-z_]\w*)+(?:\[[\w.-]+\])?", re.ASCII)


def file_name(node_id: str) -> str:
    """Name the recording of a test; ids that differ give names that differ, and every name is safe for any file system."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", node_id.replace("::", ".").replace("/", ".").rstrip("]").replace("[", "-"))
    if len(name) > _MAX_NAME or not _PLAIN.fullmatch(node_id):
        digest = hashlib.sha256(node_id.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]
        name = f"{name[:_MAX_NAME]}-{digest}"
    return name.lstrip(".-") + _ENDING


def write_recording(directory: Path, node_id: str, requests: Iterable[Request]) -> None:
    """Write what a test sent, in place of its earlier recording; raise `OSError` when that cannot be.

    A test that sent nothing has no file. Like every recording, it can be read by its owner only.
    """
    recording = b"".join(
        framed("traces" if isinstance(request, ExportTraceServiceRequest) else "logs", request.SerializeToString())
        for request in requests
    )
    path = directory / file_name(node_id)
    if not recording:
        path.unlink(missing_ok=True)
        return
    # Written beside it: half a file is never taken for a recording.
    descriptor, beside = tempfile.mkstemp(prefix=".", suffix=".partial", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(recording)
        Path(beside).replace(path)
    except OSError:
        Path(beside).unlink(missing_ok=True)
        raise
