"""One attempt to send, over either transport. The only things here that touch the network."""

from typing import Protocol

from toolgauge.export.verdict import Verdict
from toolgauge.model.delivery import Signal


class Sender(Protocol):
    """Sends one request once."""

    async def start(self) -> None:
        """Open what needs a running event loop; connects lazily."""
        ...

    async def renew(self) -> None:
        """Use TLS files that have changed; raise `StartError` when they cannot be used (the old ones stay in use)."""
        ...

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send the body and say what became of it."""
        ...

    async def close(self) -> None:
        """Close the connections; may be called twice and without a start."""
        ...
