"""A small HTTP server that answers `GET /comparison` as the admin endpoint does."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import msgspec

from tests.http_server import Quiet, answering
from toolgauge.model.regressions import Arm, Stream

TOKEN = "t0ken"  # noqa: S105 (of a test)


def arm(
    version: str | None, observations: int, total: float, *, tool: str | None = None, first_seen_ns: int = 0
) -> Arm:
    stream = Stream(
        service="shop",
        environment="live",
        agent="support",
        tool=tool,
        criterion="default.tool_success",
        revision="0123456789ab",
        level="call",
    )
    return Arm(
        stream=stream,
        version=version,
        observations=observations,
        sum=total,
        sum_of_squares=total,
        first_seen_ns=first_seen_ns,
        last_seen_ns=first_seen_ns,
    )


class Admin:
    """What the server answers; may change between two questions."""

    def __init__(self, arms: Sequence[Arm]) -> None:
        self.arms = arms
        self.status = 200
        self.body: bytes | None = None
        self.authorization: str | None = None
        self.url = ""
        # Called after each answer.
        self.on_request: Callable[[], object] = lambda: None

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body."""
        if path != "/comparison":
            return 404, b"{}"
        if self.body is not None:
            return self.status, self.body
        return self.status, msgspec.json.encode({"arms": msgspec.to_builtins(self.arms)})


@contextmanager
def serving(arms: Sequence[Arm]) -> Generator[Admin]:
    """Serve on a free port of loopback."""
    admin = Admin(arms)

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            admin.authorization = self.headers.get("Authorization")
            status, body = admin.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            admin.on_request()

    with answering(Handler) as admin.url:
        yield admin
