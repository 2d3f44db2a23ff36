"""`toolgauge learn --live` where it cannot learn."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.http_server import Quiet, answering
from tests.wire.support import free_port
from toolgauge.cli.main import main

NO_SUCH_PATH = (404, {"error": "no such path; there is `/` and `/ack`"})
DONE = {"learning": {"left_ns": 0, "runs": 3, "calls": 0, "skipped": 1}}


@dataclass
class Admin:
    """Answers each path as it is told to; keeps what came."""

    answers: Mapping[str, tuple[int, object]]
    url: str = ""
    asked: list[tuple[str, object]] = field(default_factory=list[tuple[str, object]])
    tokens: set[str | None] = field(default_factory=set[str | None])


@contextmanager
def serving(admin: Admin) -> Generator[Admin]:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: object) -> None:
            admin.asked.append((self.path, body))
            admin.tokens.add(self.headers["Authorization"])
            status, answer = admin.answers[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

    with answering(Handler) as admin.url:
        yield admin


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["learn", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_options_and_token_reach_the_process(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    learned: dict[str, object] = {
        "text": "criteria: []\n",
        "services": [],
        "runs": 3,
        "calls": 0,
        "skipped": 1,
        "cut_short": 0,
    }
    answers: dict[str, tuple[int, object]] = {
        "/learn": (200, {"id": "a1"}),
        "/learning?id=a1": (200, DONE),
        "/learned": (200, {"learned": learned}),
    }
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    with serving(Admin(answers)) as admin:
        options = ("--min-runs", "7", "--tolerance", "0.02", "--false-alarms", "0.1", "--token-file", str(token))
        code, out, err = run(capsys, "--live", "90m", "--admin", f"{admin.url}/", *options)
    assert admin.asked == [
        ("/learn", {"duration_ns": 5_400_000_000_000}),
        ("/learning?id=a1", None),
        ("/learned", {"id": "a1", "min_runs": 7, "tolerance": 0.02, "false_alarms": 0.1}),
    ]
    assert admin.tokens == {"Bearer t0ken"}
    assert (code, out) == (1, "")
    assert "left out: 1 of 4 runs, to keep learning cheap\n" in err
    assert "error: there was no tool call in this time (3 runs)\n" in err


def test_process_that_was_restarted_is_named(capsys: pytest.CaptureFixture[str]):
    answers = {"/learn": (200, {"id": "a1"}), "/learning?id=a1": (200, {"learning": None})}
    with serving(Admin(answers)) as admin:
        code, out, err = run(capsys, "--live", "1h", "--admin", admin.url)
    assert (code, out) == (1, "")
    assert err.endswith(
        f"error: `{admin.url}` has lost what it learned: it was restarted, or not asked for five minutes\n"
        "hint: begin again\n"
    )


@pytest.mark.parametrize(
    ("status", "answer", "complaint"),
    [
        (*NO_SUCH_PATH, "hint: that process is older than this command: it cannot learn\n"),
        (401, {}, "refuses: HTTP status 401\nhint: `--token-file`"),
        (409, {"error": "another client learns at the moment"}, "refuses: another client learns at the moment\n"),
        (200, {"id": 3}, "does not answer as toolgauge does\n"),
        (200, [], "does not answer as toolgauge does\n"),
    ],
)
def test_refusal_is_shown(status: int, answer: object, complaint: str, capsys: pytest.CaptureFixture[str]):
    with serving(Admin({"/learn": (status, answer)})) as admin:
        code, out, err = run(capsys, "--live", "1h", "--admin", admin.url)
    assert (code, out, len(admin.asked)) == (1, "", 1)
    assert complaint in err


def test_toolgauge_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]):
    url = f"http://127.0.0.1:{free_port()}"
    code, _, err = run(capsys, "--live", "1h", "--admin", url)
    assert code == 1
    assert err.startswith(f"error: cannot reach `{url}`: ")
    assert "hint: is `toolgauge serve` running there?\n" in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "recordings, or `--live` with a duration"),
        (("--live", "1h", "traffic.otlp"), "`--live` takes no FILE"),
        (("--live", "1h", "--only", "a=b"), "`--live` takes no FILE, `--only`"),
        (("--live", "1h", "--set", "log.level=info"), "`--config` or `--set`"),
        (("--live", "3600"), "`--live` must be a duration with a unit"),
        (("--live", "25h"), "`--live` takes a duration from `1s` to `24h`"),
        (("--live", "0s"), "`--live` takes a duration from `1s` to `24h`"),
        (("--live", "1h", "--admin", "localhost:13133"), "`--admin` must be a URL"),
        (("--live", "1h", "--token-file", "/nowhere/token"), "cannot read the token file"),
        (("--admin", "http://localhost:1", "traffic.otlp"), "`--admin` and `--token-file` go with `--live`"),
    ],
)
def test_misuse_ends_with_2(arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert complaint in err
