"""`compare --agents` as people run it, over recordings and a running process."""

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec

from tests.cli.test_compare import run
from tests.http_server import Quiet, answering
from tests.report.test_catalogue import catalogue, tool
from tests.report.test_catalogue import run as scored_run
from tests.walk.support import CORPUS

RECORDING = str(CORPUS / "pydantic-ai")


@contextmanager
def web_view(body: bytes, status: int = 200) -> Generator[tuple[str, list[str | None]]]:
    """Serve the JSON of agents; yield the URL and the tokens that were sent."""
    tokens: list[str | None] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers.get("Authorization"))
            self.send_response(status if self.path == "/agents.json" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with answering(Handler) as url:
        yield url, tokens


def test_recordings_show_their_agents_with_models_tools_and_cost():
    ended = run(
        "compare",
        "--agents",
        RECORDING,
        "--set",
        "costs.prices={stub*: {input_per_million: 1, output_per_million: 10}}",
    )
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("assistant of pydantic-ai-demo\n  11 runs, 8 without a fault seen, 3 failed\n")
    assert "  a run without a fault seen takes: tokens 190, time 349 ms, cost 0.000434 USD\n" in ended.out
    assert "  gen_ai.response.model stub-model: 11 runs, first seen 2026-11-21 01:56:35 UTC" in ended.out
    assert "  tool get_weather: 9 calls, 1 failed, p50 2 ms, p95 10 ms, judged by default.arguments_schema" in ended.out


def test_a_running_process_is_asked_with_the_token(tmp_path: Path):
    found = catalogue()
    found.add(scored_run(tool()))
    (tmp_path / "token").write_text("t0ken\n")
    with web_view(msgspec.json.encode(found.content())) as (url, tokens):
        ended = run("compare", "--agents", "--live", f"{url}/", "--token-file", str(tmp_path / "token"))
    assert ended.out.startswith("triage of support\n  1 run, 1 without a fault seen\n")
    assert tokens == ["Bearer t0ken"]
