"""`toolgauge ack` against a real server."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.http_server import Quiet, answering
from toolgauge.cli.main import main


@dataclass
class Admin:
    """Answers the same each time; keeps what came."""

    status: int = 200
    answer: bytes = b'{"acknowledged": 2}'
    location: str | None = None
    url: str = ""
    bodies: list[object] = field(default_factory=list[object])
    tokens: list[str | None] = field(default_factory=list[str | None])
    hosts: list[str | None] = field(default_factory=list[str | None])


@contextmanager
def serving(admin: Admin) -> Generator[Admin]:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert (self.path, self.headers["Content-Type"]) == ("/ack", "application/json")
            admin.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            admin.tokens.append(self.headers["Authorization"])
            admin.hosts.append(self.headers["Host"])
            self.send_response(admin.status)
            if admin.location is not None:
                self.send_header("Location", admin.location)
            self.end_headers()
            self.wfile.write(admin.answer)

    with answering(Handler) as admin.url:
        yield admin


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["ack", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_streams_are_accepted_by_their_fields(capsys: pytest.CaptureFixture[str]):
    with serving(Admin()) as admin:
        named = [
            "--criterion",
            "c",
            "--revision",
            "1f",
            "--service",
            "s",
            "--environment",
            "e",
            "--agent",
            "a",
            "--level",
            "call",
        ]
        code, out, err = run(capsys, "--admin", admin.url, *named, "--tool", "")
    assert (code, out, err) == (0, "2 streams accepted; their baseline is learned again\n", "")
    given = {
        "criterion": "c",
        "revision": "1f",
        "service": "s",
        "environment": "e",
        "agent": "a",
        "tool": "",
        "level": "call",
    }
    assert admin.bodies == [given]
    assert admin.hosts == [admin.url.removeprefix("http://")]
    assert admin.tokens == [None]


def test_token_of_the_file_is_sent(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("t0ken\nanother\n")
    with serving(Admin()) as admin:
        assert run(capsys, "--admin", admin.url, "--token-file", str(file), "--all")[0] == 0
    assert admin.tokens == ["Bearer t0ken"]


def test_no_stream_that_matches_is_a_failure(capsys: pytest.CaptureFixture[str]):
    with serving(Admin(answer=b'{"acknowledged": 0}')) as admin:
        code, out, err = run(capsys, "--admin", admin.url, "--tool", "x")
    assert (code, out) == (1, "")
    assert err == f"error: no stream matches\nhint: `curl {admin.url}/streams` lists them\n"


def test_hint_has_the_token_where_one_is_needed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "my token"
    file.write_text("t0ken\n")
    with serving(Admin(answer=b'{"acknowledged": 0}')) as admin:
        _, _, err = run(capsys, "--admin", admin.url, "--tool", "x", "--token-file", str(file))
    header = f"\"Authorization: Bearer $(head -n 1 '{file}')\""
    assert err == f"error: no stream matches\nhint: `curl -H {header} {admin.url}/streams` lists them\n"


@pytest.mark.parametrize(
    ("admin", "complaint"),
    [
        (Admin(status=403, answer=b'{"error": "no\\u001b[31m token"}'), "refuses: no [31m token\nhint: `--token-file`"),
        (Admin(status=401, answer=b""), "refuses: HTTP status 401\nhint: `--token-file`"),
        (Admin(status=404, answer=b'{"error": "nothing is watched"}'), "refuses: nothing is watched\n"),
        (Admin(status=302, location="http://127.0.0.1:1/ack"), "refuses: HTTP status 302\n"),
        (Admin(answer=b"<html>"), "does not answer as toolgauge does\n"),
        (Admin(answer=b'{"acknowledged": "2"}'), "does not answer as toolgauge does\n"),
    ],
)
def test_refusal_is_shown(admin: Admin, complaint: str, capsys: pytest.CaptureFixture[str]):
    with serving(admin):
        code, out, err = run(capsys, "--admin", admin.url, "--all")
    assert (code, out, len(admin.bodies)) == (1, "", 1)
    assert complaint in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name the streams"),
        (("--all", "--tool", "x"), "`--all` stands alone"),
        (("--level", "span"), "'span' is not one of"),
        (("--all", "--admin", "localhost:13133"), "`--admin` must be a URL"),
        (("--all", "--admin", "file:///etc/passwd"), "`--admin` must be a URL"),
        (("--all", "--admin", "http://[::1"), "`--admin` must be a URL"),
        (("--all", "--token-file", "/nowhere/token"), "cannot read the token file"),
    ],
)
def test_misuse_ends_with_2(arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert complaint in err
