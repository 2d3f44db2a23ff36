"""A small HTTP server on loopback for what asks one: tests write the handler."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Quiet:
    """Goes before `BaseHTTPRequestHandler`, which would log each request."""

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""
        del format, args


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    """Answer on a free port; yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
