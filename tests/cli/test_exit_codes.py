"""Each exit code that a command's help promises, provoked; where a running process is needed, a test of `tests/wire` does."""

import re
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import click
import pytest

from tests.cli.command import run
from tests.forked import start
from tests.http_server import Quiet, answering
from toolgauge.cli.main import commands

ROOT = Path(__file__).parents[2]
RETRY = str(ROOT / "src" / "toolgauge" / "demo" / "traffic" / "openinference-crewai.retry.otlp.pb")
FILES = {
    "broken.otlp.pb": b"\xff\xff",
    "empty.json": b'{"resourceSpans": []}',
    "wrong.yaml": b"hold: {timout: 1s}",
    "criteria.yaml": b"criteria: [{name: one, evaluator: tool_call_count, counts: {lookup_stock: '<= 1'}}]",
    "tls.yaml": b"exporters: {otlp: {endpoint: 'a:1', tls: {ca_file: missing.pem}}}",
    "other.yaml": b"tests: [{assert: [{type: 'trajectory:tool-used', value: pay}]}]",
    "good.jsonl": b'{"id": "a", "evaluator": "tool_call_f1", "config": {}, "expected": {"calls": []}, "actual": {"calls": []}}',
    "pays.jsonl": b'{"id": "a", "evaluator": "tool_call_f1", "config": {}, "expected": {"calls": [{"name": "pay"}]},'
    b' "actual": {"calls": [{"name": "pay"}]}}',
    "bad.jsonl": b'{"id": "a", "evaluator": "tool_call_f1", "config": {}, "expected": {"calls": [{"name": "pay"}]},'
    b' "actual": {"calls": [{"name": "tell"}]}}',
}
# The output goes to a disk that is full: what else could go wrong with a command that only prints?
FULL = ">"
PROVOKED: dict[str, dict[int, str]] = {
    "init": {
        0: "init --pack retrieval -d new",
        1: "init empty.json -d new",
        2: "init",
    },
    "serve": {
        1: "serve --set receivers.otlp.protocols.grpc.endpoint=TAKEN",
        2: "serve --config wrong.yaml",
    },
    "demo": {2: "demo --nothing"},
    "record": {
        1: "record -o run.otlp --set receivers.otlp.protocols.grpc.endpoint=TAKEN",
        2: "record -o run.txt",
    },
    "inspect": {0: "inspect RETRY", 1: "inspect broken.otlp.pb", 2: "inspect --nothing"},
    "doctor": {0: "doctor RETRY", 1: "doctor empty.json", 2: "doctor"},
    "catalogue": {0: "catalogue RETRY", 1: "catalogue broken.otlp.pb", 2: "catalogue"},
    "replay": {
        0: "replay RETRY",
        1: "replay --criteria criteria.yaml --fail-under one=1 RETRY",
        2: "replay --criteria wrong.yaml RETRY",
    },
    "learn": {
        1: "learn empty.json",
        2: "learn --nothing",
        3: "learn RETRY",
    },
    "backtest": {0: "backtest RETRY", 1: "backtest empty.json", 2: "backtest --config wrong.yaml RETRY"},
    "labels": {1: "labels pull phoenix --set exporters.phoenix.endpoint=FORBIDDING", 2: "labels pull nowhere"},
    "expect": {0: "expect RETRY", 1: "expect broken.otlp.pb", 2: "expect --nothing"},
    "explain": {
        0: "explain default.tool_success RETRY",
        1: "explain default.tool_success broken.otlp.pb",
        2: "explain no-such-criterion RETRY",
    },
    "compare": {2: "compare --nothing", 3: "compare RETRY RETRY"},
    "mcp": {1: "mcp missing.otlp.pb", 2: "mcp --nothing"},
    "score": {0: "score pays.jsonl", 1: "score bad.jsonl", 2: "score"},
    "convert": {0: "convert other.yaml", 1: f"convert other.yaml {FULL}", 2: "convert --nothing"},
    "ack": {1: "ack --admin http://127.0.0.1:9 --all", 2: "ack --nothing"},
    "validate": {0: "validate", 1: "validate --strict --config tls.yaml", 2: "validate --config wrong.yaml"},
    "schema": {0: "schema", 1: f"schema {FULL}", 2: "schema --of nothing"},
    "components": {0: "components", 1: f"components {FULL}", 2: "components nothing"},
    "print-config": {0: "print-config", 1: f"print-config {FULL}", 2: "print-config --config wrong.yaml"},
}
# Test file -> the codes that it provokes, with real processes, servers or more traffic.
ELSEWHERE: dict[str, dict[int, str]] = {
    "serve": {0: "tests/wire/test_serve.py"},
    "demo": {0: "tests/wire/test_demo.py", 1: "tests/wire/test_demo.py"},
    "record": {0: "tests/wire/test_record.py"},
    "learn": {0: "tests/cli/test_learn.py"},
    "labels": {0: "tests/backends/test_pulled_verdicts.py"},
    "compare": {0: "tests/cli/test_compare.py", 1: "tests/cli/test_compare.py"},
    "mcp": {0: "tests/mcp_server/test_server.py"},
    "ack": {0: "tests/cli/test_ack.py"},
}


@pytest.fixture(scope="module")
def taken() -> Iterator[str]:
    """An endpoint where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class Forbids(Quiet, BaseHTTPRequestHandler):
    """Answers 403, which is not tried again."""

    def do_GET(self) -> None:
        self.send_error(403)


@pytest.fixture(scope="module")
def forbidding() -> Iterator[str]:
    with answering(Forbids) as url:
        yield url


def command(name: str) -> click.Command:
    found = commands.get_command(click.Context(commands), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", list(PROVOKED))
def test_every_code_that_the_help_promises_is_provoked(name: str):
    promised = {int(code) for code in re.findall(r"(?:Exit codes: |; )(\d) ", command(name).epilog or "")}
    assert PROVOKED[name].keys() | ELSEWHERE.get(name, {}).keys() == promised
    assert [file for file in ELSEWHERE.get(name, {}).values() if not (ROOT / file).exists()] == []


def test_every_command_is_here():
    assert list(PROVOKED) == commands.list_commands(click.Context(commands))


@pytest.mark.parametrize(
    ("words", "code"), [(words, code) for codes in PROVOKED.values() for code, words in codes.items()]
)
def test_a_command_ends_with_the_code_that_its_help_promises(
    words: str, code: int, tmp_path: Path, taken: str, forbidding: str
):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    places = {"RETRY": RETRY, "TAKEN": taken, "FORBIDDING": forbidding}
    arguments = [
        re.sub("|".join(places), lambda found: places[found[0]], word) for word in words.split() if word != FULL
    ]
    if FULL not in words:
        ended = run(*arguments, cwd=tmp_path)
        assert ended.code == code, ended.err
        return
    if not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    with Path("/dev/full").open("w") as full, (tmp_path / "err").open("w") as err:
        toolgauge = [sys.executable, "-m", "toolgauge", *arguments]
        assert start(toolgauge, stdout=full.fileno(), stderr=err.fileno(), env={}, cwd=tmp_path).wait(300) == code
