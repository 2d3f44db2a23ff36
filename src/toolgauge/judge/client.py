"""What asks a judge model: one request in, one reply out. How often and at what cost is not its business."""

from typing import Protocol, runtime_checkable

from msgspec import Struct

from toolgauge.model.json import Json
from toolgauge.model.judging import Question


class Reply(Struct, frozen=True, kw_only=True):
    """What a judge answered. `problem` says why there is no verdict in it at all; `verdict` is then `None`.

    Tokens are `None` where the provider did not report them. `raw` is the reply as the client knows it, for the next
    request of the same conversation.
    """

    verdict: Json
    problem: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    raw: object = None


class Exchange(Struct, frozen=True, kw_only=True):
    """One reply that was no verdict, and what was wrong with it."""

    reply: Reply
    problem: str


class Request(Struct, frozen=True, kw_only=True):
    """A question, with the exchanges that have led to nothing so far."""

    question: Question
    exchanges: tuple[Exchange, ...] = ()


@runtime_checkable
class Preparing(Protocol):
    """A client whose first request would take its process long, were it not for this."""

    async def prepare(self) -> None:
        """Load what requests need. Sends nothing."""
        ...


class Client(Protocol):
    """One way to a judge model; used by one event loop."""

    async def ask(self, request: Request) -> Reply:
        """Send the request once. Raises `JudgeCallError`; anything else it raises is reported by its type alone."""
        ...

    async def close(self) -> None:
        """Let go of connections. May be called twice."""
        ...
