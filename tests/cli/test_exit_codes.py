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
    "demo": {2: "demo --nothing"},
    "check": {0: "check RETRY", 1: "check bad.jsonl", 2: "check --criteria wrong.yaml RETRY"},
    "serve": {
        1: "serve --set receivers.otlp.protocols.grpc.endpoint=TAKEN",
        2: "serve --config wrong.yaml",
    },
    "record": {
        1: "record -o run.otlp --set receivers.otlp.protocols.grpc.endpoint=TAKEN",
        2: "record -o run.txt",
    },
    "doctor": {0: "doctor RETRY", 1: "doctor empty.json", 2: "doctor"},
    "init": {0: "init --pack retrieval -d new", 1: "init empty.json -d new", 2: "init"},
    "learn": {1: "learn empty.json", 2: "learn --nothing", 3: "learn RETRY"},
    "expect": {0: "expect RETRY", 1: "expect broken.otlp.pb", 2: "expect --nothing"},
    "compare": {2: "compare --nothing", 3: "compare RETRY RETRY"},
    "validate": {0: "validate", 1: "validate --strict --config tls.yaml", 2: "validate --config wrong.yaml"},
    "mcp": {1: "mcp missing.otlp.pb", 2: "mcp --nothing"},
    "ack": {1: "ack --admin http://127.0.0.1:9 --all", 2: "ack --nothing"},
}
# Further ways to end, which the help does not tell apart.
MORE = [
    ("check --calls broken.otlp.pb", 1),
    ("check --fail-on nothing --fail-under one=1 --criteria criteria.yaml RETRY", 1),
    ("check --criterion no-such-criterion RETRY", 2),
    ("check --firings --config wrong.yaml RETRY", 2),
    ("check --labels phoenix: --set exporters.phoenix.endpoint=FORBIDDING", 1),
    ("check --labels nowhere:", 2),
    ("check pays.jsonl", 0),
    ("compare --agents broken.otlp.pb", 1),
    ("init --from other.yaml", 0),
    (f"init --from other.yaml {FULL}", 1),
    ("validate --schema nothing", 2),
    (f"validate --components {FULL}", 1),
    ("validate --print --schema", 2),
    ("validate --json", 2),
]
# Test file -> the codes that it provokes, with real processes, servers or more traffic.
ELSEWHERE: dict[str, dict[int, str]] = {
    "serve": {0: "tests/wire/test_serve.py"},
    "demo": {0: "tests/wire/test_demo.py", 1: "tests/wire/test_demo.py"},
    "record": {0: "tests/wire/test_record.py"},
    "learn": {0: "tests/cli/test_learn.py"},
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
    ("words", "code"), [*((words, code) for codes in PROVOKED.values() for code, words in codes.items()), *MORE]
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
