"""`toolgauge ack` against a real server."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

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
    names = ("criterion", "revision", "service", "environment", "agent", "tool", "level")
    fields = dict(zip(names, ("c", "1f", "s", "e", "a", "", "call"), strict=True))
    words = [word for name, value in fields.items() for word in (f"--{name}", value)]
    with serving(Admin()) as admin:
        code, out, err = run(capsys, "--admin", admin.url, *words)
    assert (code, out, err) == (0, "2 streams accepted; their baseline is learned again\n", "")
    assert (admin.bodies, admin.hosts) == ([fields], [admin.url.removeprefix("http://")])
    assert admin.tokens == [None]


@pytest.mark.parametrize(
    ("admin", "complaint"),
    [
        (Admin(status=403, answer=b'{"error": "no\\u001b[31m token"}'), "refuses: no [31m token\nhint: `--token-file`"),
        (Admin(status=302, location="http://127.0.0.1:1/ack"), "refuses: HTTP status 302\n"),
        (Admin(answer=b"<html>"), "does not answer as toolgauge does\n"),
    ],
)
def test_refusal_is_shown(admin: Admin, complaint: str, capsys: pytest.CaptureFixture[str]):
    with serving(admin):
        code, out, err = run(capsys, "--admin", admin.url, "--all")
    assert (code, out, len(admin.bodies)) == (1, "", 1)
    assert complaint in err


@pytest.mark.parametrize("url", ["localhost:13133", "file:///etc/passwd", "http://[::1"])
def test_what_is_no_url_of_a_server_is_misuse(url: str, capsys: pytest.CaptureFixture[str]):
    code, _, err = run(capsys, "--all", "--admin", url)
    assert (code, "`--admin` must be a URL" in err) == (2, True)
