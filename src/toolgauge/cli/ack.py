"""`toolgauge ack`: accepts lower scores as the new normal."""

import json
from pathlib import Path
from shlex import quote

import click

from toolgauge.model.errors import ToolgaugeError
from toolgauge.net.admin_client import ask, check_url, not_toolgauge
from toolgauge.net.settings import read_token
from toolgauge.report.streams import echo

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
@click.option("--revision", help="Streams of this revision of a criterion, as `/streams` lists it.")
@click.option("--service", help="Streams of this service.")
@click.option("--environment", help="Streams of this environment.")
@click.option("--agent", help="Streams of this agent.")
@click.option("--tool", help="Streams of this tool.")
@click.option("--level", type=click.Choice(["call", "trajectory"]), help="Streams of this level.")
@click.option("--all", "is_all", is_flag=True, help="All streams.")
def command(admin: str, token_file: Path | None, *, is_all: bool, **names: str | None) -> int:
    """Accept the scores of streams as their new normal.

    A stream is what is watched together: the scores of one criterion, tool, agent and service. Its alarm ends, and its
    baseline is learned again from the next conversations. Options that are given must all match, exactly; an empty
    one (`--tool ""`) means streams without it, such as that of all tools of an agent.
    """
    filters = {name: value for name, value in names.items() if value is not None}
    if is_all and filters:
        raise click.UsageError("`--all` stands alone")
    if not is_all and not filters:
        raise click.UsageError("name the streams, by `--criterion` for example, or give `--all`")
    token = None if token_file is None else read_token(token_file)
    check_url(admin, "--admin")
    body = ask(admin, "/ack", token=token, max_bytes=_MAX_ANSWER_BYTES, body=json.dumps(filters).encode())
    try:
        answered: object = json.loads(body)
    except ValueError as error:
        raise not_toolgauge(admin) from error
    match answered:
        case {"acknowledged": int(acknowledged)}:
            pass
        case _:
            raise not_toolgauge(admin)
    if not acknowledged:
        asking = "" if token_file is None else f'-H "Authorization: Bearer $(head -n 1 {quote(str(token_file))})" '
        raise ToolgaugeError("no stream matches", hint=f"`curl {asking}{admin.rstrip('/')}/streams` lists them")
    noun = "stream" if acknowledged == 1 else "streams"
    echo(f"{acknowledged} {noun} accepted; their baseline is learned again")
    return 0
