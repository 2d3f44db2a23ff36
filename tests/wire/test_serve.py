"""`toolgauge serve` as a process: how it starts, how it ends, and what it says when it cannot start."""

import contextlib
import re
import signal
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.certificates import certificates
from tests.wire.destination import receiving
from tests.wire.support import (
    LISTEN,
    SENDING_SHORTLY,
    Process,
    Toolgauge,
    free_port,
    post,
    serving,
    to_grpc,
    toolgauge_command,
    until,
)


def listening_addresses(pid: int) -> set[str]:
    """Local addresses (hex, as the kernel writes them) on which the process listens."""
    inodes: set[str] = set()
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        inodes.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    return {
        row.split()[1].partition(":")[0]
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        if row.split()[3] == "0A" and row.split()[9] in inodes
    }


LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs /proc to see who listens")
def test_it_listens_on_loopback_only_and_says_on_which_ports(tmp_path: Path):
    listen = tuple(setting.replace("127.0.0.1", "localhost") for setting in LISTEN)
    with contextlib.closing(Toolgauge(tmp_path, listen=listen)) as toolgauge:
        toolgauge.wait_until_up()
        assert listening_addresses(toolgauge.pid) <= LOOPBACK
        assert post(toolgauge.http_port, b"") == (200, b"")
        toolgauge.signal()
        assert toolgauge.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_scores_what_is_open_sends_it_and_ends_with_0(tmp_path: Path, number: int):
    with receiving() as destination:
        settings = ("assemble.run_end_grace=1h", "hold.timeout=1h", "assemble.idle_timeout=1h")
        with serving(tmp_path, to_grpc(destination.grpc_port), *settings) as toolgauge:
            toolgauge.send_recorded("pydantic-ai", "tool_error")
            assert toolgauge.books()["held"] > 0
            toolgauge.signal(number)
            assert toolgauge.ended() == 0
            assert "everything was delivered" in toolgauge.said()
        assert len(destination.spans()) == 3
        assert len(destination.scorecards()) == 1
        assert any(event.event_name == "gen_ai.evaluation.result" for event in destination.events())
        assert "toolgauge.evaluations" in destination.metrics()


def test_interrupts_that_were_ignored_at_the_start_stay_ignored(tmp_path: Path):
    command = toolgauge_command("serve", *(word for setting in LISTEN for word in ("--set", setting)))
    with contextlib.closing(
        Process(["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command], tmp_path / "toolgauge.log")
    ) as process:
        until(lambda: "metrics on port" in process.said(), "the ports in the log")
        process.signal(signal.SIGINT)
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
        assert "second signal" not in process.said()


@contextlib.contextmanager
def never_answering() -> Generator[int]:
    """A port where connections are made and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as silent:
        yield silent.getsockname()[1]


def test_a_destination_that_is_dead_or_silent_at_the_end_is_plainly_claimed_with_what_is_lost_and_exit_code_1(
    tmp_path: Path,
):
    with (
        never_answering() as silent,
        serving(tmp_path, to_grpc(free_port()), patched=SENDING_SHORTLY) as to_dead,
        serving(tmp_path, to_grpc(silent, "timeout: 10m"), patched=SENDING_SHORTLY) as to_silent,
    ):
        for toolgauge in (to_dead, to_silent):
            toolgauge.send_recorded("pydantic-ai", "tool_error")
            toolgauge.signal()
        for toolgauge in (to_dead, to_silent):
            assert toolgauge.ended() == 1
            lost = r"stopped; lost: 3 spans and \d+ requests of our own could not be delivered to otlp"
            assert re.search(lost, toolgauge.said())


def test_a_second_signal_ends_it_at_once(tmp_path: Path):
    # What is queued would have hours.
    patiently = {"service.service._SENDING_UNTIL_S": 36_000.0}
    with (
        never_answering() as silent,
        serving(tmp_path, to_grpc(silent, "timeout: 10h"), patched=patiently) as toolgauge,
    ):
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        toolgauge.signal()
        from_log(toolgauge, "stopping")
        toolgauge.signal()
        assert toolgauge.ended() == 1
        assert "second signal" in toolgauge.said()


def from_log(toolgauge: Toolgauge, words: str) -> None:
    until(lambda: words in toolgauge.said(), f"`{words}` in the log")


def test_the_log_begins_with_all_addresses_and_warnings_come_after_them(tmp_path: Path):
    made = certificates(tmp_path)
    tls = f'tls: {{cert_file: "{made.server_cert}", key_file: "{made.server_key}"}}'
    http = f'receivers.otlp.protocols.http={{endpoint: ":0", insecure: true, {tls}}}'
    with contextlib.closing(
        Toolgauge(tmp_path, "workers=2", "exporters.prometheus.endpoint=localhost:0", http)
    ) as toolgauge:
        warning = "WARNING toolgauge: `state.directory` is not set"
        said = until(lambda: toolgauge.said() if warning in toolgauge.said() else None, "the warning")
    addresses = (
        r"receiving OTLP/gRPC on port (\d+) \(http://127\.0\.0\.1:\1\)",
        r"receiving OTLP/HTTP on port (\d+) \(https://\[::\]:\1\)",
        r"metrics on port (\d+) \(http://localhost:\1/metrics\)",
        r"health on port (\d+) \(http://127\.0\.0\.1:\1\), and for administration .*",
        r"web view on http://127\.0\.0\.1:\d+",
    )
    for line, address in zip(said.splitlines(), addresses, strict=False):
        assert re.fullmatch(rf"\S+ \S+ INFO toolgauge: {address}", line)


def test_ports_in_use_are_one_error_with_keys_and_settings_to_copy_and_exit_code_1(tmp_path: Path):
    keys = [setting.partition("=")[0] for setting in LISTEN]
    with contextlib.ExitStack() as stack:
        taken = {key: stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for key in keys}
        with contextlib.closing(
            Toolgauge(tmp_path, listen=tuple(f"{key}=127.0.0.1:{port}" for key, port in taken.items()))
        ) as toolgauge:
            assert toolgauge.ended() == 1
        said = toolgauge.said()
    assert said.startswith(f"error: {len(keys)} endpoints cannot be had\n")
    assert "Traceback" not in said
    for key, port in taken.items():
        assert f"cannot listen on `127.0.0.1:{port}`: the port is in use (`{key}`)" in said
        assert f"--set {key}=127.0.0.1:" in said


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"bad.yaml": "recievers: {}\n"}, ("bad.yaml:1", "unknown key `recievers`", "did you mean `receivers`?")),
        ({"bad.yaml": "hold: {timeout: 10s\n"}, ("bad.yaml:",)),
        ({"bad.yaml": "criteria_files: [none.yaml]\n"}, ("none.yaml",)),
        (
            {
                "cases.jsonl": '{"case": "a", "expected": []}\n{"case": "b", "expected": [{"nam": "x"}]}\n',
                "bad.yaml": "criteria: [{name: a, evaluator: tool_success, reference: {file: cases.jsonl, key: k}}]",
            },
            ("cases.jsonl:2",),
        ),
    ],
    ids=["an unknown key", "text that is not YAML", "no criteria file", "a bad line in a reference"],
)
def test_a_bad_configuration_is_one_error_with_file_line_and_hint_and_exit_code_2(
    tmp_path: Path, files: dict[str, str], expected: tuple[str, ...]
):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    said = refused_to_start(tmp_path, "--config", str(tmp_path / "bad.yaml"))
    for words in expected:
        assert words in said


def test_a_destination_that_is_its_own_receiver_is_refused(tmp_path: Path):
    port = free_port()
    grpc = f"receivers.otlp.protocols.grpc.endpoint=localhost:{port}"
    said = refused_to_start(tmp_path, "--set", grpc, "--set", f"exporters.otlp.endpoint=127.0.0.1:{port}")
    assert "which is our own `receivers.otlp.protocols.grpc.endpoint`" in said
    assert "hint:" in said


def refused_to_start(folder: Path, *arguments: str) -> str:
    """Start with what is wrong and return what was said."""
    with contextlib.closing(Process(toolgauge_command("serve", *arguments), folder / "said")) as process:
        assert process.ended() == 2
    said = process.said()
    assert said.startswith("error: ")
    assert said.count("error: ") == 1
    assert "Traceback" not in said
    return said
