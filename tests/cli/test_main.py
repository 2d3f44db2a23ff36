"""Streams, exit codes and the list of commands."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.cli.command import run
from toolgauge.cli.main import commands, main
from toolgauge.model.errors import ConfigError, RecordingError, StartError

RECORDING = Path(__file__).parent.parent / "corpus" / "strands" / "bad_json_latest.otlp.pb"


def test_help_needs_neither_grpc_nor_pydantic():
    script = (
        "import sys\n"
        "from toolgauge.cli.main import main\n"
        "main(['--help'])\n"
        "loaded = {'grpc', 'pydantic', 'yaml', 'google.protobuf', 'aiohttp'} & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_inspecting_a_recording_needs_neither_servers_nor_senders_nor_judges():
    script = (
        "import sys\n"
        "from toolgauge.cli.main import main\n"
        f"failed = main(['check', '--calls', '--json', {str(RECORDING)!r}])\n"
        "loaded = {'grpc', 'aiohttp', 'asyncio', 'jsonschema', 'opentelemetry.sdk'} & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else failed)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_service_starts_without_the_libraries_on_demand():
    script = (
        "import os, sys\n"
        "from toolgauge import on_demand\n"
        "from toolgauge.cli import serve\n"
        "async def start(*_):\n"
        "    print(*{*on_demand.NAMES} & {*sys.modules}, flush=True)\n"
        "    os._exit(0)\n"
        "serve._start = start\n"
        "serve.command.main([])\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "\n"), ended.stderr


def test_an_unknown_command_is_misuse_with_a_hint():
    ended = run("serv")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err == (
        "error: no command called `serv`. Did you mean `serve`?\nhint: `toolgauge --help` lists what there is\n"
    )


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_colour_appears_on_terminals_unless_switched_off(no_colour: str, *, coloured: bool):
    terminal, side = os.openpty()
    ended = subprocess.run(
        [sys.executable, "-m", "toolgauge", "validate", "--set", "x"],
        env={**os.environ, "TERM": "xterm", "NO_COLOR": no_colour},
        stdout=subprocess.PIPE,
        stderr=side,
        check=False,
    )
    os.close(side)
    seen = os.read(terminal, 10_000)
    os.close(terminal)
    assert ended.returncode == 2
    assert b"error:" in seen
    assert (b"\x1b[" in seen) is coloured


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("broken", hint="mend it"), 2),
        (RecordingError("broken", hint="mend it"), 1),
        (StartError("broken", hint="mend it"), 1),
    ],
)
def test_our_errors_become_error_and_hint_lines(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    raising(error, monkeypatch)
    assert main(["failing"]) == code
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", "error: broken\nhint: mend it\n")


def test_interrupting_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    raising(KeyboardInterrupt(), monkeypatch)
    assert main(["failing"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["schema", "--help", "--version"])
def test_a_reader_that_has_had_enough_is_no_error(argument: str):
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "toolgauge", argument], stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(read_end)
    os.close(write_end)
    _, complaints = process.communicate(timeout=300)
    assert (process.returncode, complaints.replace("`schema` is now `validate --schema`\n", "")) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_a_failure_with_a_message():
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "toolgauge", "validate", "--print"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "error: [Errno 28] No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [("validate", "--set", "x"), ("serve", "--set", "x"), ("valdate",)])
def test_an_error_that_cannot_be_written_leaves_the_exit_code_as_it_is(arguments: tuple[str, ...]):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-m", "toolgauge", *arguments], stderr=full, check=False)
    assert ended.returncode == 2


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line meet a command that fails."""

    @click.command("failing")
    def failing() -> None:
        raise error

    def resolve(_context: click.Context, _arguments: list[str]) -> tuple[str, click.Command, list[str]]:
        return "failing", failing, []

    monkeypatch.setattr(commands, "resolve_command", resolve)


def test_letters_that_stdout_lacks_are_escaped():
    recording = Path(__file__).parent.parent / "corpus" / "otel-util-genai"
    command = [sys.executable, "-m", "toolgauge", "check", "--calls", str(recording)]
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1:strict"}
    ended = subprocess.run(command, env=latin, capture_output=True, check=True)
    assert b'get_weather(city="\\u6771\\u4eac' in ended.stdout
    assert b"K\xf8benhavn" in ended.stdout
