"""Phoenix and MLflow as real servers on loopback with a home of their own; and what they show of scores."""

import contextlib
import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.peers.environments import binaries
from tests.wire.support import Process, environment, free_port, request, until

Json = Any
# They import for a minute on a machine on which much else runs.
_START_TIMEOUT_S = 600


@dataclass(frozen=True, order=True)
class Shown:
    """One score in a backend's own table; its place is a span, or a trace."""

    place: str
    name: str
    score: float | None
    label: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Server:
    """A running backend."""

    port: int
    process: Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str) -> tuple[int, Json]:
        """Return the status and the JSON of an answer, `None` where it has none."""
        status, body = request(self.port, "GET", path, None, {})
        try:
            return status, json.loads(body)
        except ValueError:
            return status, None


class Phoenix(Server):
    """Arize Phoenix with SQLite."""

    def scores(self, span_ids: Iterable[str]) -> list[Shown]:
        """Read the annotations of spans."""
        asked = "&".join(f"span_ids={one}" for one in span_ids)
        status, answer = self.ask(f"/v1/projects/default/span_annotations?limit=1000&{asked}")
        found: list[Json] = answer["data"] if status == 200 else []
        return sorted(
            Shown(
                one["span_id"], one["name"], one["result"]["score"], one["result"]["label"] or "", one["annotator_kind"]
            )
            for one in found
        )

    def trace(self, trace_id: str) -> tuple[int, float]:
        """Return how many spans a trace has and how many seconds it lasted, as the table of traces says."""
        query = f'{{ getTraceByOtelId(traceId: "{trace_id}") {{ numSpans latencyMs }} }}'
        body = json.dumps({"query": query}).encode()
        _, answer = request(self.port, "POST", "/graphql", body, {"Content-Type": "application/json"})
        found: Json = json.loads(answer)["data"]["getTraceByOtelId"]
        return (0, 0.0) if found is None else (found["numSpans"], found["latencyMs"] / 1000)


class MLflow(Server):
    """MLflow with SQLite; its experiment `Default` has the number 0."""

    def scores(self, trace_ids: Iterable[str]) -> list[Shown]:
        """Read the assessments of traces and their spans."""
        found: list[Shown] = []
        for trace_id in trace_ids:
            status, answer = self.ask(f"/api/3.0/mlflow/traces/tr-{quote(trace_id)}")
            assessments: list[Json] = answer["trace"]["trace_info"].get("assessments", []) if status == 200 else []
            found += [
                Shown(
                    one.get("span_id", trace_id),
                    one["assessment_name"],
                    one["feedback"]["value"],
                    one["metadata"].get("outcome", ""),
                    one["source"]["source_type"],
                )
                for one in assessments
            ]
        return sorted(found)

    def length_s(self, trace_id: str) -> float:
        """Return how many seconds a trace lasted, as the list of traces says."""
        _, answer = self.ask(f"/api/3.0/mlflow/traces/tr-{quote(trace_id)}")
        return float(answer["trace"]["trace_info"]["execution_duration"].removesuffix("s"))


@contextlib.contextmanager
def running_phoenix(folder: Path) -> Generator[Phoenix]:
    """Run Phoenix with its files in a folder."""
    port = free_port()
    variables = {
        "HOME": str(folder),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [str(binaries("phoenix") / "phoenix"), "serve"]
    with _running(command, folder / "phoenix.log", variables) as process:
        phoenix = Phoenix(port, process)
        _wait(phoenix, "/healthz")
        yield phoenix


@contextlib.contextmanager
def running_mlflow(folder: Path) -> Generator[MLflow]:
    """Run MLflow with its files in a folder."""
    port, binary = free_port(), binaries("mlflow")
    variables = {
        "HOME": str(folder),
        "PATH": f"{binary}:/usr/bin:/bin",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    # With several workers it ends those that do not answer for 5 s.
    command = [str(binary / "mlflow"), "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with _running(command, folder / "mlflow.log", variables) as process:
        mlflow = MLflow(port, process)
        _wait(mlflow, "/health")
        yield mlflow


@contextlib.contextmanager
def _running(command: list[str], log: Path, variables: dict[str, str]) -> Generator[Process]:
    with contextlib.closing(Process(command, log, environment(**variables))) as process:
        yield process
        # In order, so that it ends its own processes.
        process.signal()
        process.ended()


def _wait(server: Server, path: str) -> None:
    def answers() -> bool:
        assert server.process.is_running(), server.process.said()
        with contextlib.suppress(OSError):
            return server.ask(path)[0] == 200
        return False

    until(answers, f"an answer from {server.url}", _START_TIMEOUT_S)
