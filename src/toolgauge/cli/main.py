"""The command `toolgauge`: finds sub-commands by name and turns errors into messages and exit codes.

Nothing but click is imported here: sub-commands load their modules when they run, as `--help` must not wait for gRPC.
"""

import contextlib
import gc
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import NamedTuple, TypeVar

import click

from toolgauge.model.errors import ConfigError, ToolgaugeError
from toolgauge.report.streams import (
    close_log,
    drop_output,
    echo,
    has_colour,
    kept_output,
    open_streams,
    outlast_reader,
)

_F = TypeVar("_F", bound=Callable[..., object])


def configuration_options(function: _F) -> _F:
    """Add `--config` and `--set`, which arrive as `config_paths` and `overrides`."""
    config = click.option(
        "--config",
        "config_paths",
        multiple=True,
        metavar="FILE",
        type=click.Path(),
        help="A YAML configuration file. Given several times, the files are merged from left to right: mappings key "
        "by key, everything else is replaced. Without one, the defaults hold; `toolgauge validate --print` prints them.",
    )
    override = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set one key over what the files say, as in `--set hold.timeout=10s`. The value is read as YAML. May be "
        "given several times.",
    )
    return config(override(function))


def criteria_option(text: str) -> Callable[[_F], _F]:
    """Return what adds `--criteria`, which arrives as `criteria_files`; `text` is its help."""
    return click.option("--criteria", "criteria_files", multiple=True, type=click.Path(), help=text)


EXIT_CODES = "Exit codes: 0 fine; 1 problems found, or a failure at run time; 2 misuse or bad configuration."
_ALL_EXIT_CODES = f"{EXIT_CODES[:-1]}; 3 not enough data (`compare`, `learn`)."

# The sub-commands with their lines in the list.
_COMMANDS = {
    "demo": "Show recorded agent traffic being scored, without keys or network.",
    "check": "Score recorded traffic or offline cases; fail if a run failed.",
    "serve": "Receive OTLP, score tool calls, send on spans and scores.",
    "record": "Write the OTLP that arrives to a file, and show the tool calls in it.",
    "doctor": "Tell what producers leave out, and what turns it on.",
    "init": "Write a first configuration and criteria file, from traffic, packs or other tools.",
    "learn": "Learn criteria from recorded traffic, for a person to review.",
    "expect": "Turn good recorded runs into references, and failing ones into cases.",
    "compare": "Compare the scores of two releases; list agents with what a run takes.",
    "validate": "Check, print and describe configuration, criteria and plug-ins.",
    "mcp": "Answer a coding agent's questions about recordings (MCP).",
    "ack": "Accept lower scores as the new normal of what is watched.",
}
_GARBAGE_THRESHOLD = 50_000  # Objects; services set their own
# Started by other sub-commands, and not for people.
_HIDDEN = frozenset({"worker"})


class Alias(NamedTuple):
    """An earlier command: what people write now, the words that stand for it, and its options that have other names."""

    now: str
    words: str
    renamed: Mapping[str, str] = {}


# Earlier commands, with the same output as before. They are not listed.
ALIASES = {
    "inspect": Alias("check --calls", "check --calls"),
    "replay": Alias("check", "check --fail-on nothing"),
    "explain": Alias("check --criterion", "check --fail-on nothing --allow-nothing --first criterion"),
    "score": Alias("check", "check --cases"),
    "backtest": Alias("check --labels", "check --fail-on nothing --firings"),
    "labels pull": Alias(
        "check --labels", "check --first labels", {"--name": "--label-name", "--pass-at": "--label-pass-at"}
    ),
    "catalogue": Alias("compare --agents", "compare --agents"),
    "convert": Alias("init --from", "init --from"),
    "schema": Alias("validate --schema", "validate --schema", {"--of": "--schema"}),
    "components": Alias("validate --components", "validate --components"),
    "print-config": Alias("validate --print", "validate --print"),
}
# These only print, without an end in sight, or look after their streams: a reader that leaves ends them.
_ENDS_WITH_READER = frozenset({"inspect", "explain", "demo", "serve", "mcp", "worker"})


class _ReaderHasGoneError(Exception):
    """The reader of our output has closed it; click ends with 1 on a `BrokenPipeError`."""


class LazyGroup(click.Group):
    """Knows its sub-commands by name and imports the wanted one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Name the sub-commands, the most wanted first."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (as above)
        """Import one sub-command; under an earlier name its successor."""
        home = ALIASES[cmd_name].words.partition(" ")[0] if cmd_name in ALIASES else cmd_name
        if home not in _COMMANDS and home not in _HIDDEN:
            return None
        module = import_module(f"toolgauge.cli.{home}")
        gc.freeze()
        command: object = getattr(module, "command", None)
        if not isinstance(command, click.Command):
            return None
        found = copy(command)
        found.name = cmd_name
        found.callback = command.callback and kept_output()(command.callback)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a sub-command, and suggest one for an unknown name."""
        # Some earlier commands are of two words.
        earlier = next((count for count in (2, 1) if " ".join(args[:count]) in ALIASES), 0)
        name = " ".join(args[: earlier or 1])
        if earlier:
            now, words, renamed = ALIASES[name]
            echo(f"`{name}` is now `{now}`", err=True)
            options = [word.partition("=") for word in args[earlier:]]
            args = [name, *words.split()[1:], *("".join((renamed.get(word, word), *rest)) for word, *rest in options)]
        elif name and not name.startswith("-") and name not in _COMMANDS and name not in _HIDDEN:
            from difflib import get_close_matches

            close = get_close_matches(name, _COMMANDS, n=1)
            hint = f" Did you mean `{close[0]}`?" if close else ""
            ctx.fail(f"no command called `{name}`.{hint}")
        outlast_reader(outlasts=name not in _ENDS_WITH_READER)
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read our own options; options that print something do so here."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError as error:
            raise _ReaderHasGoneError from error

    def invoke(self, ctx: click.Context) -> object:
        """Run the sub-command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderHasGoneError from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (as above)
        """List the sub-commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_ALL_EXIT_CODES)
@click.version_option(package_name="toolgauge", message="toolgauge %(version)s", help="Print the version.")
def commands() -> None:
    """Score the tool calls of AI agents inside an OpenTelemetry pipeline.

    Results are printed to stdout and everything else to stderr. Colour is left out when NO_COLOR is set or the
    output is not a terminal.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    open_streams()
    # gRPC looks at this when it is imported: without it, it writes a line on stderr for each stranger whose handshake fails.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # And pydantic at this: it would look for plug-ins of its own in everything that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Looking for garbage every 700 objects takes a seventh of the CPU of a short command, and finds next to none.
    gc.set_threshold(_GARBAGE_THRESHOLD)
    try:
        returned: object = commands.main(args=arguments, prog_name="toolgauge", standalone_mode=False)
        echo(end="")  # here, so that a closed pipe is noticed while it can still be handled
    except ToolgaugeError as error:
        _complain(error.message, error.hint)
        return 2 if isinstance(error, ConfigError) else 1
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        path = "toolgauge" if error.ctx is None else error.ctx.command_path
        hint = f"`{path} --help` lists what there is"
        if isinstance(error, click.MissingParameter) and error.ctx is not None:
            usage = " ".join((path, *error.ctx.command.collect_usage_pieces(error.ctx)))
            hint = f"`{usage}`; `{path} --help` has more"
        _complain(error.format_message(), hint)
        return error.exit_code
    except click.ClickException as error:
        _complain(error.format_message(), None)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SystemExit:
        _complain("code of a plug-in tried to end this command: its report is not complete", None)
        return 1
    except (_ReaderHasGoneError, BrokenPipeError):
        drop_output()
        return 0
    except OSError as error:  # a full disk, mostly: files that cannot be read have errors of their own
        drop_output()
        _complain(str(error), None)
        return 1
    finally:
        close_log()
    return returned if isinstance(returned, int) else 0


def _complain(message: str, hint: str | None) -> None:
    red, cyan, plain = ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") if has_colour(err=True) else ("", "", "")
    # Where nothing can be written, the exit code is the only message, and must not change.
    with contextlib.suppress(OSError):
        echo(f"{red}error:{plain} {message}", err=True)
        if hint:
            echo(f"{cyan}hint:{plain} {hint}", err=True)
