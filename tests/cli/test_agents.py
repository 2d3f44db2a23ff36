"""`compare --agents` as people run it, over recordings and a running process."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec
import pytest

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


def test_json_and_markdown_have_the_same_figures():
    (agent,) = json.loads(run("compare", "--agents", RECORDING, "--json").out)["agents"]
    assert agent["usage"]["runs"] == {"pass": 8, "fail": 3, "not_evaluated": 0}
    assert agent["usage"]["of_success"] == {
        "tokens": 189.875,
        "duration": pytest.approx(0.349, abs=0.001),
        "cost": None,
    }
    assert agent["usage"]["recorded"] == {"tokens": 11, "duration": 11, "cost": 0}
    shown = run("compare", "--agents", RECORDING, "--markdown").out
    assert shown.startswith(
        "### <code>assistant</code> of <code>pydantic-ai-demo</code>\n\n- 11 runs, 8 without a fault seen"
    )


def test_a_tool_has_the_last_change_of_its_definition(tmp_path: Path):
    before, after = ((CORPUS / "pydantic-ai" / f"{name}.otlp.pb").read_bytes() for name in ("one_call", "tool_error"))
    (tmp_path / "1.otlp.pb").write_bytes(before)
    (tmp_path / "2.otlp.pb").write_bytes(after.replace(b'"string"', b'"number"'))
    ended = run("compare", "--agents", str(tmp_path))
    assert "contract changed (breaking at $.parameters.properties.path.type) 2026-11-21 01:59:" in ended.out
    assert ended.out.count("contract changed") == 1


def test_a_running_process_is_asked_with_the_token(tmp_path: Path):
    found = catalogue()
    found.add(scored_run(tool()))
    (tmp_path / "token").write_text("t0ken\n")
    with web_view(msgspec.json.encode(found.content())) as (url, tokens):
        ended = run("compare", "--agents", "--live", f"{url}/", "--token-file", str(tmp_path / "token"))
    assert ended.out.startswith("triage of support\n  1 run, 1 without a fault seen\n")
    assert tokens == ["Bearer t0ken"]


def test_another_answer_is_an_error():
    with web_view(b'{"agents": 1}') as (url, _):
        ended = run("compare", "--agents", "--live", url)
    assert (ended.code, ended.out) == (1, "")
    assert "does not answer as toolgauge does" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give recordings, or `--live`"),
        ((RECORDING, "--live", "http://localhost:8317"), "give recordings, or `--live`"),
        ((RECORDING, "--json", "--markdown"), "`--json` or `--markdown`, not both"),
        ((RECORDING, "--token-file", "x"), "`--token-file` goes with `--live`"),
        (("--live", "http://localhost:8317", "--criteria", "x"), "it takes no `--criteria`"),
        (("--live", "localhost"), "`--live` must be a URL"),
    ],
)
def test_misuse_is_named(arguments: tuple[str, ...], message: str):
    ended = run("compare", "--agents", *arguments)
    assert ended.code == 2
    assert message in ended.err
