"""`toolgauge record` and `exporters.file`: what senders send is in a file that the other commands read."""

import contextlib
import re
import shlex
import signal
import stat
from collections.abc import Generator, Iterable
from pathlib import Path

from tests.cli.command import run
from tests.wire.support import CORPUS, Process, post, serving, toolgauge_command, until
from tests.wire.support import LISTEN as SERVE_LISTEN

FRAMEWORKS = ("openlit-langgraph", "strands", "pydantic-ai")
LISTEN = tuple(
    part
    for protocol in ("grpc", "http")
    for part in ("--set", f"receivers.otlp.protocols.{protocol}.endpoint=127.0.0.1:0")
)


class Recording(Process):
    """`toolgauge record` with ports that the system picked; `blocks` bounds the size of the files it writes, in 512 bytes."""

    def __init__(self, folder: Path, file: Path, *arguments: str, blocks: int | None = None) -> None:
        command = toolgauge_command("record", "-o", str(file), *LISTEN, *arguments)
        if blocks is not None:
            command = ["sh", "-c", f"ulimit -f {blocks}; exec {shlex.join(command)}"]
        super().__init__(command, folder / "record.log")
        self.port = 0

    def wait_until_up(self) -> "Recording":
        def port() -> re.Match[str] | None:
            assert self.is_running(), self.said()
            return re.search(r"OTLP/HTTP on port (\d+)\n.*Ctrl-C ends it", self.said())

        self.port = int(until(port, "the ports on the screen")[1])
        return self

    def send(self, files: Iterable[Path]) -> None:
        for file in files:
            path = "/v1/logs" if ".logs." in file.name else "/v1/traces"
            status, _ = post(self.port, file.read_bytes(), path=path)
            assert status == 200


@contextlib.contextmanager
def recording(folder: Path, file: Path, *arguments: str, blocks: int | None = None) -> Generator[Recording]:
    with contextlib.closing(Recording(folder, file, *arguments, blocks=blocks)) as process:
        yield process.wait_until_up()
        assert "Traceback" not in process.said()


def captured(*frameworks: str) -> list[Path]:
    return [file for framework in frameworks for file in sorted((CORPUS / framework).glob("*.otlp.pb"))]


def printed(*arguments: str) -> str:
    ended = run(*arguments)
    # `doctor` finds problems in all of it.
    assert ended.code == (arguments[0] == "doctor")
    return ended.out


def results(*arguments: str) -> list[str]:
    """Return the lines of a command in an order that does not depend on that of the files."""
    return sorted(printed(*arguments).splitlines())


def test_all_commands_read_a_recording_as_what_was_sent(tmp_path: Path):
    file = tmp_path / "run.otlp.xz"
    with recording(tmp_path, file) as process:
        process.send(captured(*FRAMEWORKS))
        process.signal(signal.SIGINT)
        assert process.ended() == 0
    sent = [str(CORPUS / framework) for framework in FRAMEWORKS]
    assert results("check", "--calls", "--json", str(file)) == results("check", "--calls", "--json", *sent)
    assert results("check", "--fail-on", "nothing", "--json", str(file)) == results(
        "check", "--fail-on", "nothing", "--json", *sent
    )
    assert printed("doctor", "--json", str(file)) == printed("doctor", "--json", *sent)


def test_it_names_each_service_and_dialect_once_and_sums_up(tmp_path: Path):
    file = tmp_path / "run.otlp.gz"
    with recording(tmp_path, file) as process:
        process.send(captured("openlit-langgraph"))
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
    said = process.said()
    assert said.count("service `shop-assistant`: dialect openlit") == 1
    assert re.search(r"^  `shop-assistant`: 6 trajectories, 10 tool calls; openlit \(80\)$", said, re.MULTILINE)
    assert f"next: toolgauge check {file}" in said
    assert results("check", "--calls", "--json", str(file)) == results(
        "check", "--calls", "--json", str(CORPUS / "openlit-langgraph")
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_recording_is_read_while_it_is_written_and_after_a_kill(tmp_path: Path):
    file = tmp_path / "run.otlp.xz"
    sent = results("check", "--calls", "--json", str(CORPUS / "strands"))
    with recording(tmp_path, file) as process:
        process.send(captured("strands"))
        until(lambda: file.exists() and file.stat().st_size, "something to be in the file")
        until(lambda: results("check", "--calls", "--json", str(file)) == sent, "all of it to be in the file")
        process.signal(signal.SIGKILL)
        process.ended()
    assert printed("check", "--calls", "--json", str(file))


def test_a_full_disk_stops_no_sender_and_is_shown_once_and_at_the_end(tmp_path: Path):
    file = tmp_path / "run.otlp"
    with recording(tmp_path, file, blocks=64) as process:
        process.send(captured(*FRAMEWORKS))
        process.send(captured(*FRAMEWORKS))
        until(lambda: "cannot write" in process.said(), "the error on the screen")
        process.send(captured("strands"))
        process.signal()
        assert process.ended() == 1
    assert process.said().count("cannot write") == 1
    assert re.search(r"^\d+ requests are missing from it: write_failed$", process.said(), re.MULTILINE)
    # What fitted is whole.
    assert 0 < file.stat().st_size <= 64 * 1024
    assert printed("check", "--calls", "--json", str(file))


def test_what_cannot_be_recorded_into_is_refused(tmp_path: Path):
    file = tmp_path / "run.otlp"
    file.write_bytes(b"old")
    for named, code, words in (
        (file, 1, "`--force` replaces it"),
        (tmp_path / "run.json", 2, "must end in `.otlp`"),
    ):
        refused = Recording(tmp_path, named)
        assert refused.ended() == code
        refused.close()
        assert words in refused.said()
    assert file.read_bytes() == b"old"


def test_force_replaces_the_file_and_a_port_in_use_leaves_it(tmp_path: Path):
    file = tmp_path / "run.otlp"
    file.write_bytes(b"old")
    with recording(tmp_path, file, "--force") as process:
        process.send(captured("strands"))
        before = until(lambda: read if (read := file.read_bytes()) != b"old" else None, "something in the file")
        taken = f"receivers.otlp.protocols.http.endpoint=127.0.0.1:{process.port}"
        (tmp_path / "second").mkdir()
        second = Recording(tmp_path / "second", file, "--force", "--set", taken)
        assert second.ended() == 1
        assert re.search(
            r"the port is in use \(`receivers\.otlp\.protocols\.http\.endpoint`\)\n.*choose another port: "
            r"`--set receivers\.otlp\.protocols\.http\.endpoint=127\.0\.0\.1:\d+`",
            second.said(),
        )
        second.close()
        assert file.read_bytes().startswith(before)


def test_serve_writes_what_arrives_and_moves_the_last_recording_aside(tmp_path: Path):
    file = tmp_path / "traffic.otlp.xz"
    with serving(tmp_path, f"exporters.file.path={file}") as toolgauge:
        for captured_file in captured("strands"):
            toolgauge.send(captured_file.read_bytes(), "http")
        toolgauge.signal()
        assert toolgauge.ended() == 0
    assert results("check", "--calls", "--json", str(file)) == results(
        "check", "--calls", "--json", str(CORPUS / "strands")
    )
    with serving(tmp_path, f"exporters.file.path={file}", "exporters.file.max_backups=1"):
        pass
    (backup,) = tmp_path.glob("traffic-*.otlp.xz")
    assert printed("check", "--calls", "--json", str(backup))


def test_a_recording_that_serve_cannot_write_keeps_it_from_starting(tmp_path: Path):
    missing = tmp_path / "none" / "traffic.otlp"
    anywhere = [part for setting in SERVE_LISTEN for part in ("--set", setting)]
    started = Process(
        toolgauge_command("serve", "--set", f"exporters.file.path={missing}", *anywhere), tmp_path / "log"
    )
    assert started.ended() == 1
    started.close()
    assert f"cannot record to `{missing}`: No such file or directory" in started.said()
