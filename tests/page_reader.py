"""A reader of one page: a folder with a copy of the project, recordings, and the commands that run on.

The ports that the pages name are replaced by free ones, so that the tests run beside each other and beside a `toolgauge serve`.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests import forked
from tests.page_commands import ROOT, Command
from tests.wire.support import environment, free_port, get, post, until
from toolgauge.demo.sample_sender import Recording, Release, drawn, recordings
from toolgauge.otlp.request import framed

HOUR_NS, SECOND_NS = 3_600_000_000_000, 1_000_000_000
SOON = ("assemble.run_end_grace=300ms", "assemble.conversation_idle_timeout=1s", "watch.conversation_idle=1s")
# Enough of each release for `compare` to know.
RUNS = 80
# The releases in a recording; where a recording is not named here it has both, and a run as it was recorded.
VERSIONS = {"before": ("1.0",), "main": ("1.0",), "after": ("1.1",), "branch": ("1.1",), "sent": ("1.0", "1.1")}
# What a page lets the reader fill in, and what this one does.
PLACEHOLDERS = {
    "[FILE...]": "traffic.otlp",
    "[RECORDING...]": "traffic.otlp",
    "FILE...": "traffic.otlp",
    "FILE": "traffic.otlp",
    "CRITERION": "default.tool_success",
    "BASE": "before/",
    "NEW": "after/",
    "CASES.jsonl": "cases.jsonl",
}
_CRITERIA = """\
criteria:
  - name: refund-arguments
    evaluator: tool_call_args
    when: {service: shop-assistant}
    subset: true
    tools: [refund_order]
    expected: [{name: refund_order, args: {amount: 42.5}}]
    pass_at: 0.8
"""
# Of the files that a page takes for granted, those that hold something else than recorded traffic.
OWN_FILES = {
    "criteria.yaml": _CRITERIA,
    "toolgauge.yaml": "criteria_files: [criteria.yaml]\n",
    "cases.jsonl": '{"id": "a", "evaluator": "tool_call_f1", "config": {}, "expected": {"calls": [{"name": "pay"}]},'
    ' "actual": {"calls": [{"name": "pay"}]}}\n',
    "verdicts.csv": "trace_id,verdict\n7eabeccfb1a92e956d7b86c8164360e8,fail\n",
    "refunds.yaml": _CRITERIA.replace("42.5", "40.0"),
    "definitions.yaml": "tests: [{assert: [{type: 'trajectory:tool-used', value: pay}]}]\n",
    # Stands for an agent: sends a recording as its exporter would.
    "my_agent/cases.py": """\
import os, pathlib, urllib.request
for file in sorted(pathlib.Path("src/toolgauge/demo/traffic").glob("openinference-langgraph.sequence.*")):
    url = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    headers = {"Content-Type": "application/x-protobuf"}
    urllib.request.urlopen(urllib.request.Request(url, file.read_bytes(), headers)).read()
""",
}
_LISTENS = re.compile(r"^((?:\S*/)?toolgauge (serve|record)\b)")
_RUNS_ON = re.compile(r"(?:\S*/)?toolgauge (?:serve|record|demo --stay)\b")
_ASKS_A_SERVE = re.compile(r"localhost:(?:13133|9464|8317|4318)|toolgauge ack\b")
_RECORDING = re.compile(r"[\w-]+\.otlp(?:\.xz|\.pb)?|(?:traffic|before|after|runs)/?")
_SHELL = re.compile(r"[|<>&;${}()\n]")


@contextmanager
def reading(folder: Path, collector_port: int, files: Mapping[str, str]) -> Generator["Reader"]:
    """Yield a reader of a page with these files in an empty folder; the collector is what pages call `my-collector:4317`."""
    reader = Reader(folder, collector_port, files)
    try:
        yield reader
    finally:
        reader.close()


class Reader:
    """Runs the commands of one page from top to bottom."""

    def __init__(self, folder: Path, collector_port: int, files: Mapping[str, str]) -> None:
        self.folder = folder
        self.files = {**OWN_FILES, **files}
        self.collector_port = collector_port
        # What `export` lines set; read by agents alone, not by the toolgauge in the other terminal.
        self.exported: dict[str, str] = {}
        for name in ("src", "tests", "docs", "pyproject.toml", "README.md", "CONTRIBUTING.md", "LICENSE"):
            (folder / name).symlink_to(ROOT / name)
        for name in ("examples", "deploy"):
            shutil.copytree(ROOT / name, folder / name)
        for name in (".venv", ".venv-test"):
            (folder / name).symlink_to(sys.prefix)
        self.ports = {port: free_port() for port in (4317, 4318, 8317, 9464, 13133)}
        self._running: tuple[forked.Running, Path] | None = None

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, command: Command) -> tuple[int, str]:
        """Return exit code and output; of a command that runs on, as soon as it is ready, 0."""
        filled = {**PLACEHOLDERS, "FILE...": "definitions.yaml"} if " --from " in command.text else PLACEHOLDERS
        text = " ".join(filled.get(word, word) for word in command.text.split(" "))
        for port, free in self.ports.items():
            text = re.sub(rf"localhost:{port}\b", f"localhost:{free}", text)
        text = text.replace("my-collector:4317", f"localhost:{self.collector_port}")
        if text.startswith("export "):
            self.exported |= dict(word.split("=", 1) for word in shlex.split(text, comments=True)[1:])
        self._provide(text)
        if _ASKS_A_SERVE.search(command.text) and self._running is None and not _LISTENS.search(text):
            self._start("toolgauge serve")
            self._send_and_wait_for_scores()
        if _RUNS_ON.match(text):
            # A shell would leave it behind.
            return self._start(text.removesuffix(" &"))
        process, output = self._process(text)
        code = process.wait(120)
        return code, output.read_text()

    def close(self) -> tuple[int, str]:
        """End what runs on, as Ctrl-C does; return its exit code and output."""
        if self._running is None:
            return 0, ""
        process, output = self._running
        self._running = None
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(60)
            # Ended by Ctrl-C, as a shell says it.
            return 0 if code == 130 else code, output.read_text()
        finally:
            process.kill()

    def _start(self, text: str) -> tuple[int, str]:
        ended = self.close()
        if ended[0]:
            return ended
        process, output = self._running = self._process(text)
        ready = {"serve": "web view on", "record": "Ctrl-C ends it", "demo": "Ctrl-C"}[text.split()[1]]
        logs = [output, *(self.folder / name for name in re.findall(r"2>(\S+)", text))]

        def is_ready() -> bool:
            return process.poll() is not None or any(log.exists() and ready in log.read_text() for log in logs)

        until(is_ready, f"`{text}` to be ready")
        if process.poll() is None and "record" in text:
            self._send()
        return process.poll() or 0, output.read_text()

    def _process(self, text: str) -> tuple[forked.Running, Path]:
        text = _LISTENS.sub(self._listening, text)
        commands = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = environment(PATH=commands, HOME=str(self.folder), GITHUB_STEP_SUMMARY=str(self.folder / "summary.md"))
        env |= {"HTTP_PORT": str(self.ports[4318]), "GRPC_PORT": str(self.ports[4317])}
        descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=".output-")
        with os.fdopen(descriptor, "w") as file:
            words = shlex.split(text, comments=True) if not _SHELL.search(text) else []
            if words and words[0].rpartition("/")[2] == "toolgauge":
                line = [sys.executable, "-m", "toolgauge", *words[1:]]
            else:
                env |= {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | self.exported
                line = ["bash", "-euo", "pipefail", "-c", f"exec {text}" if _RUNS_ON.match(text) else text]
            process = forked.start(line, stdout=file.fileno(), stderr=file.fileno(), env=env, cwd=self.folder)
        return process, Path(name)

    def _listening(self, found: re.Match[str]) -> str:
        """Add free ports, and times after which runs are scored soon."""
        endpoints = {"receivers.otlp.protocols.grpc": 4317, "receivers.otlp.protocols.http": 4318}
        if found[2] == "serve":
            endpoints |= {"web": 8317, "exporters.prometheus": 9464, "admin": 13133}
        settings = [f"{key}.endpoint=localhost:{self.ports[port]}" for key, port in endpoints.items()]
        return " ".join([found[1], *(f"--set {setting}" for setting in (*settings, *SOON))])

    def _send(self) -> None:
        for body in _traffic("sent"):
            assert post(self.ports[4318], body)[0] == 200

    def _send_and_wait_for_scores(self) -> None:
        self._send()

        def are_scored() -> bool:
            arms = json.loads(get(self.ports[13133], "/comparison"))["arms"]
            return {arm["version"] for arm in arms if arm["observations"] >= RUNS} == {*VERSIONS["sent"]}

        until(are_scored, "all runs to be scored")

    def _provide(self, text: str) -> None:
        """Write the files that a command reads and no earlier one has written."""
        words = re.sub(r"(?:-o|--references|>+) ?\S+", "", text).split()
        for name in self.files:
            if not (self.folder / name).exists() and (
                name in words or (Path(name).parent.name and Path(name).parent.name in text)
            ):
                self.write(name, self.files[name])
        for name in filter(_RECORDING.fullmatch, words):
            path = self.folder / name
            if not path.exists():
                body = b"".join(framed("traces", request) for request in _traffic(path.stem))
                path = path if path.suffix else path / "traffic.otlp"
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(body)


def _traffic(name: str) -> tuple[bytes, ...]:
    """Return one run as it was recorded, then conversations of two releases that are as good as each other."""
    recorded = () if name in VERSIONS else _recorded("openinference-langgraph.sequence").requests
    return (*recorded, *itertools.chain.from_iterable(map(_conversations, VERSIONS.get(name, VERSIONS["sent"]))))


@cache
def _conversations(version: str) -> tuple[bytes, ...]:
    clock = itertools.count(time.time_ns() - HOUR_NS, SECOND_NS)
    release = Release(version=version, failures=0.0)
    conversations = drawn([_recorded("otel-util-genai.parallel")], release, seed=7, clock=clock.__next__)
    return tuple(_with_case(body, f"case-{number % 3}") for number, body in enumerate(islice(conversations, RUNS)))


def _recorded(name: str) -> Recording:
    (found,) = (one for one in recordings() if f"{one.framework}.{one.scenario}" == name)
    return found


def _with_case(body: bytes, case: str) -> bytes:
    request = ExportTraceServiceRequest.FromString(body)
    for group in request.resource_spans:
        group.resource.attributes.append(KeyValue(key="eval.case.id", value=AnyValue(string_value=case)))
    return request.SerializeToString()
