"""`toolgauge ack`: accepts lower scores as the new normal."""

import json
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import click

from toolgauge.model.errors import ConfigError, ToolgaugeError

_TIMEOUT_S = 15
_MAX_ANSWER_BYTES = 64 * 1024
_EXIT_CODES = "Exit codes: 0 accepted; 1 no stream matched, or toolgauge was not reached; 2 misuse."


@click.command("ack", epilog=_EXIT_CODES)
@click.option(
    "--admin",
    default="http://localhost:13133",
    show_default=True,
    metavar="URL",
    help="The admin endpoint of the running toolgauge.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file whose first line is the token that `admin.auth` asks for.",
)
@click.option("--criterion", help="Streams of this criterion, such as `default.tool_success`.")
@click.option("--service", help="Streams of this service.")
@click.option("--environment", help="Streams of this environment.")
@click.option("--agent", help="Streams of this agent.")
@click.option("--tool", help="Streams of this tool.")
@click.option("--level", type=click.Choice(["call", "trajectory"]), help="Streams of this level.")
@click.option("--all", "is_all", is_flag=True, help="All streams.")
def command(admin: str, token_file: Path | None, *, is_all: bool, **names: str | None) -> int:
    """Accept the scores of streams as their new normal.

    A stream is what is watched together: the scores of one criterion, tool, agent and service. Its alarm ends, and its
    baseline is learned anew from the conversations that come. Options that are given must all match, exactly; an empty
    one (`--tool ""`) means streams without it, such as that of all tools of an agent.
    """
    filters = {name: value for name, value in names.items() if value is not None}
    if is_all and filters:
        raise click.UsageError("`--all` stands alone")
    if not is_all and not filters:
        raise click.UsageError("name the streams, by `--criterion` for example, or give `--all`")
    acknowledged = _acknowledged(admin, None if token_file is None else _token(token_file), filters)
    if not acknowledged:
        raise ToolgaugeError("no stream matches", hint=f"`curl {admin.rstrip('/')}/streams` lists them")
    noun = "stream" if acknowledged == 1 else "streams"
    click.echo(f"{acknowledged} {noun} accepted; what is normal is learned anew")
    return 0


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the token is for the endpoint that was named."""

    def redirect_request(
        self,
        req: Request,  # noqa: ARG002 (urllib's signature)
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: HTTPMessage,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> Request | None:
        """Follow nothing."""
        return None


def _acknowledged(admin: str, token: str | None, filters: Mapping[str, str]) -> int:
    """Ask the admin endpoint; return how many streams it has acknowledged."""
    _check(admin)
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body = json.dumps(filters).encode()
    request = Request(f"{admin.rstrip('/')}/ack", data=body, headers=headers)  # noqa: S310 (checked above)
    # A proxy of the environment is meant for the outside.
    opener = build_opener(ProxyHandler({}), _NoRedirects())
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            answered: object = json.loads(answer.read(_MAX_ANSWER_BYTES))
    except HTTPError as error:
        with error:
            raise _refusal(admin, error.code, error.read(_MAX_ANSWER_BYTES)) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ToolgaugeError(f"cannot reach `{admin}`: {reason}", hint="is `toolgauge serve` running there?") from error
    except ValueError as error:
        raise _stranger(admin) from error
    match answered:
        case {"acknowledged": int(count)}:
            return count
        case _:
            raise _stranger(admin)


def _check(admin: str) -> None:
    try:
        parts = urlsplit(admin)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if not is_whole or not admin.isprintable() or " " in admin:
        raise ConfigError("`--admin` must be a URL such as `http://localhost:13133`")


def _refusal(admin: str, status: int, body: bytes) -> ToolgaugeError:
    try:
        answered: object = json.loads(body)
    except ValueError:
        answered = None
    match answered:
        case {"error": str(message)}:
            reason = "".join(letter if letter.isprintable() else " " for letter in message[:500])
        case _:
            reason = f"HTTP status {status}"
    hint = "`--token-file` names the file with the token of `admin.auth`" if status in (401, 403) else None
    return ToolgaugeError(f"`{admin}` refuses: {reason}", hint=hint)


def _stranger(admin: str) -> ToolgaugeError:
    return ToolgaugeError(f"`{admin}` does not answer as toolgauge does")


def _token(file: Path) -> str:
    try:
        lines = file.read_text("utf-8-sig").split()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"cannot read the token file `{file}`: {reason}") from error
    if not lines or not (lines[0].isascii() and lines[0].isprintable()):
        raise ConfigError(f"the token file `{file}` does not begin with a token")
    return lines[0]
