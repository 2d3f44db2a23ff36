"""SIGHUP on a real process: what is wrong leaves everything as it was, and what is right loses nothing."""

# pyright: reportUnknownMemberType=false

import json
import re
import signal
import socket
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.config.files import mount
from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import (
    SOON,
    Process,
    Toolgauge,
    environment,
    free_port,
    post,
    recorded,
    serving,
    toolgauge_command,
    until,
    until_equal,
)
from toolgauge.config.criteria import DEFAULT_CRITERIA as DEFAULT_EVALUATORS
from toolgauge.model.json import Json

# Ports that do not change when a receiver is made anew; the others are picked by the system.
_ANY = "127.0.0.1:0"
# Without contracts of tools there is nothing for `tool_contract` to judge.
DEFAULT_CRITERIA = tuple(f"default.{evaluator}" for evaluator in DEFAULT_EVALUATORS if evaluator != "tool_contract")


class Reloadable(Toolgauge):
    """`toolgauge serve` with a configuration file that tests write anew."""

    def __init__(self, folder: Path, config: Mapping[str, Json]) -> None:
        self.file = folder / "toolgauge.yaml"
        self._http = f"127.0.0.1:{free_port()}"
        self._grpc = f"127.0.0.1:{free_port()}"
        self._said_before = 0
        self.write(config)
        command = toolgauge_command("serve", "--config", str(self.file))
        for setting in (*SOON, "assemble.idle_timeout=60s", "assemble.open_idle_timeout=60s"):
            command += ["--set", setting]
        Process.__init__(self, command, folder / "said.log", environment())
        self.grpc_port = self.http_port = self.metrics_port = 0

    def write(self, config: Mapping[str, Json], **protocols: Json) -> None:
        """Write the file; `grpc` and `http` take the place of the receivers' usual sections."""
        sections: dict[str, Json] = {"grpc": {"endpoint": self._grpc}, "http": {"endpoint": self._http}, **protocols}
        listening: dict[str, dict[str, Json]] = {
            "receivers": {"otlp": {"protocols": sections}},
            "admin": {"endpoint": _ANY},
            "web": {"endpoint": _ANY},
            "exporters": {"prometheus": {"endpoint": _ANY}},
        }
        exporters = config.get("exporters")
        if isinstance(exporters, dict):
            listening["exporters"].update(exporters)
        self.file.write_text(json.dumps({**config, **listening}, indent=1))

    def hang_up(self) -> None:
        self.signal(signal.SIGHUP)

    def reload(self, config: Mapping[str, Json], outcome: str = "applied", **protocols: Json) -> str:
        """Write the file, hang up, wait for the outcome and for its line in the log, and return what was said meanwhile."""
        self.reload_quietly(config, outcome, **protocols)
        # The log has a thread of its own.
        ending = r"the configuration was (not )?reloaded.*\n"
        said = self._said_before
        return until(lambda: self.said()[said:] if re.search(ending, self.said()[said:]) else "", "its line in the log")

    def reload_quietly(self, config: Mapping[str, Json], outcome: str = "applied", **protocols: Json) -> None:
        """Write the file, hang up, and wait for the outcome."""
        before, self._said_before = self.reloads(outcome), len(self.said())
        self.write(config, **protocols)
        self.hang_up()
        until(lambda: self.reloads(outcome) == before + 1, f"a reload that ends `{outcome}`")

    def reloads(self, outcome: str) -> float:
        found = re.search(
            rf'^toolgauge_reloads_total{{toolgauge_outcome="{outcome}"}} (\S+)$', self.exposition(), re.MULTILINE
        )
        return float(found[1]) if found else 0


@contextmanager
def running(folder: Path, config: Mapping[str, Json]) -> Generator[Reloadable]:
    with closing(Reloadable(folder, config)) as toolgauge:
        toolgauge.wait_until_up()
        yield toolgauge
        if toolgauge.is_running():
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
        assert "Traceback" not in toolgauge.said()


def sending_to(*destinations: Destination) -> dict[str, Json]:
    retry: Json = {"initial_interval": "100ms", "max_interval": "300ms"}
    return {
        "otlp": [
            {"name": f"to-{destination.http_port}", "endpoint": f"127.0.0.1:{destination.grpc_port}", "retry": retry}
            for destination in destinations
        ]
    }


def success(name: str, **more: Json) -> dict[str, Json]:
    return {"name": name, "evaluator": "tool_success", **more}


def split(body: bytes) -> tuple[bytes, bytes]:
    """Split a request into all spans but the root, and the root."""
    parts: list[bytes] = []
    for is_root in (False, True):
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            for scope in group.scope_spans:
                kept = [span for span in scope.spans if (not span.parent_span_id) == is_root]
                del scope.spans[:]
                scope.spans.extend(kept)
        parts.append(request.SerializeToString())
    return parts[0], parts[1]


def test_a_wrong_configuration_is_plainly_claimed_with_file_line_and_hint_and_leaves_the_running_one(tmp_path: Path):
    with running(tmp_path, {"criteria": [success("first")]}) as toolgauge:
        said = toolgauge.reload({"criteria": [success("second"), {**success("third"), "evaluator": "x"}]}, "refused")
        assert "the running one stays" in said
        assert "toolgauge.yaml:" in said
        assert "no evaluator called `x`" in said
        assert "hint:" in said
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until_equal(lambda: scored_by(toolgauge), {*DEFAULT_CRITERIA, "first"}, "results of these criteria alone")


def test_a_config_map_that_is_exchanged_is_reloaded_and_a_wrong_one_is_refused(tmp_path: Path):
    config, criteria = "criteria_files: [criteria.yaml]\n", "criteria: [{name: %s, evaluator: tool_success}]\n"
    mount(tmp_path, "1", {"toolgauge.yaml": config, "criteria.yaml": criteria % "first"})
    options = ("--config", str(tmp_path / "toolgauge.yaml"), "--watch-config")
    with serving(tmp_path, options=options) as toolgauge:
        mount(tmp_path, "2", {"toolgauge.yaml": config, "criteria.yaml": criteria % "second"})
        until(lambda: "criterion second is new" in toolgauge.said(), "the change to be reloaded")
        mount(tmp_path, "3", {"toolgauge.yaml": config, "criteria.yaml": "criteria: [{name: third"})
        until(lambda: "the running one stays" in toolgauge.said(), "the wrong change to be refused")
        outcomes = {labels: count for (name, labels), count in toolgauge.samples().items() if "reloads" in name}
        assert outcomes == {
            frozenset({("toolgauge_outcome", "applied")}): 1,
            frozenset({("toolgauge_outcome", "refused")}): 1,
        }


def scored_by(toolgauge: Toolgauge) -> set[str]:
    return {
        dict(labels)["gen_ai_evaluation_name"]
        for name, labels in toolgauge.samples()
        if name == "toolgauge_evaluations_total"
    }


def test_the_last_destination_goes_only_in_writing(tmp_path: Path):
    first: Json = [success("first")]
    second: Json = [success("second")]
    with receiving() as one, running(tmp_path, {"exporters": sending_to(one), "criteria": first}) as toolgauge:
        said = toolgauge.reload({"criteria": second}, "refused")
        assert "WARNING" in said
        assert "the running one stays: no destination is left; write `exporters: {otlp: null}`" in said
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: len(one.spans()) == 3, "the spans at the destination that stayed")
        until_equal(lambda: scored_by(toolgauge), {*DEFAULT_CRITERIA, "first"}, "results of the criteria that stayed")
        toolgauge.reload({"exporters": {"otlp": None}, "criteria": second})
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: toolgauge.books()["consumed"] == 3, "spans that go nowhere")


def test_a_file_that_was_emptied_or_is_half_written_changes_nothing(tmp_path: Path):
    with running(tmp_path, {"annotate": "off"}) as toolgauge:
        whole = toolgauge.file.read_text()
        for text, why in (
            ("", f"`{toolgauge.file}` is empty; write `{{}}` if it is to be"),
            ("# written by a tool\n---\n", f"`{toolgauge.file}` is empty"),
            (whole[:-2], f"{toolgauge.file}:"),
        ):
            before, said = toolgauge.reloads("refused"), len(toolgauge.said())
            toolgauge.file.write_text(text)
            toolgauge.hang_up()
            until(lambda before=before: toolgauge.reloads("refused") == before + 1, "the file to be refused")
            assert f"the running one stays: {why}" in toolgauge.said()[said:]
        assert post(toolgauge.http_port, b"")[0] == 200


def test_a_trace_with_spans_before_and_after_is_one_trajectory_scored_by_what_holds_at_its_end(tmp_path: Path):
    (body,) = recorded("pydantic-ai", "tool_error")
    before, after = split(body)
    with receiving() as destination:
        exporters = sending_to(destination)
        # A reload may take longer than spans are held otherwise.
        hold: Json = {"timeout": "1h"}
        first: dict[str, Json] = {"exporters": exporters, "criteria": [success("early")], "hold": hold}
        with running(tmp_path, first) as toolgauge:
            toolgauge.send(before)
            # The span that the hold does not keep has gone on once the request is read.
            until(lambda: toolgauge.books()["forwarded"] == 1, "the span that is not held")
            assert toolgauge.books()["held"] == 1
            toolgauge.reload({"exporters": exporters, "criteria": [success("late")], "hold": hold})
            assert toolgauge.books()["held"] == 1
            toolgauge.send(after)
            (scorecard,) = until(destination.scorecards, "the scorecard")
            books = toolgauge.settled(3)
            assert books["forwarded"] == 3
        scored = {key.split(".")[-2] for key in attributes(scorecard) if key.startswith("toolgauge.eval.")}
        on_spans = {key for span in destination.spans() for key in attributes(span) if ".eval." in key}
        assert len(destination.scorecards()) == 1
        assert "early" not in scored
        assert any(".late." in key for key in on_spans)
        assert not any(".early." in key for key in on_spans)


def other_trace(body: bytes, number: int = 1) -> bytes:
    """The same run with ids of its own."""
    request = ExportTraceServiceRequest.FromString(body)
    for group in request.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                span.trace_id = number.to_bytes(8, "big") + span.trace_id[8:]
    return request.SerializeToString()


class Load:
    """Senders that send runs with ids of their own until they are told to stop, and again until they are taken."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        (self._body,) = recorded("pydantic-ai", "tool_error")
        self._send = send
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._number = 0
        self.taken: set[int] = set()
        # Raised in a thread, told by the test.
        self.unexpected: list[AssertionError] = []
        self._threads = [threading.Thread(target=self._work) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        assert self.unexpected == []

    def _work(self) -> None:
        while not self._is_over.is_set():
            with self._lock:
                self._number += 1
                number = self._number
            body = other_trace(self._body, number)
            try:
                until(lambda body=body: self._send(body), "the request to be taken")
            except AssertionError as error:
                self.unexpected.append(error)
                return
            self.taken.add(number)


def test_reloads_under_load_that_change_receivers_and_destinations_lose_nothing(tmp_path: Path):
    with receiving() as one, receiving() as two:
        config: dict[str, Json] = {"exporters": sending_to(one)}
        with running(tmp_path, config) as toolgauge:

            def send(body: bytes) -> bool:
                try:
                    return post(toolgauge.http_port, body)[0] == 200
                except OSError:  # the door is shut for a moment
                    return False

            load = Load(send)
            http = f"127.0.0.1:{toolgauge.http_port}"
            try:
                for number in range(3):
                    there = two if number % 2 == 0 else one
                    toolgauge.reload(
                        {"exporters": sending_to(there), "criteria": [success(f"of-{number}")]},
                        http={"endpoint": http, "max_request_body_size": f"{number + 1}MiB"},
                    )
                    taken = len(load.taken)
                    until(lambda taken=taken: len(load.taken) > taken + 3, "requests to be taken again")
            finally:
                load.stop()
            books = toolgauge.settled(3 * len(load.taken))
            assert books["received"] == 3 * len(load.taken)
            assert books["forwarded"] == books["received"]
            assert toolgauge.reloads("applied") == 3
        arrived = [(span.trace_id, span.span_id) for span in (*one.spans(), *two.spans())]
        assert len(arrived) == len(set(arrived)) == 3 * len(load.taken)
        cards = [card.trace_id for card in (*one.scorecards(), *two.scorecards())]
        assert len(cards) == len(set(cards)) == len(load.taken)


def test_a_port_that_cannot_be_had_leaves_the_receivers_and_all_else_changes(tmp_path: Path):
    with running(tmp_path, {}) as toolgauge, socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        said = toolgauge.reload({"criteria": [success("late")]}, "partly", http={"endpoint": endpoint})
        assert f"`receivers` stays as it was: cannot listen on `{endpoint}`: the port is in use" in said
        assert "criterion late is new" in said
        assert post(toolgauge.http_port, b"")[0] == 200
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: "late" in scored_by(toolgauge), "a result of the criterion that is new")


def test_a_receiver_moves_to_another_port_which_it_says_and_asks_for_a_token(tmp_path: Path):
    with running(tmp_path, {}) as toolgauge:
        old, new = toolgauge.http_port, free_port()
        said = toolgauge.reload({}, http={"endpoint": f"127.0.0.1:{new}", "auth": {"token": "hidden-token"}})
        assert "receivers.otlp.protocols.http.endpoint, receivers.otlp.protocols.http.auth" in said
        assert "hidden-token" not in said
        assert re.findall(r"receiving OTLP/\w+ on port \d+", said) == [f"receiving OTLP/HTTP on port {new}"]
        assert post(new, b"")[0] == 401
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", old)) != 0
        toolgauge.send_recorded("pydantic-ai", "tool_error", "grpc")


def test_what_waits_for_a_start_is_named_and_the_log_changes_at_once(tmp_path: Path):
    with running(tmp_path, {}) as toolgauge:
        said = toolgauge.reload({"memory": {"limit": "600MiB"}, "log": {"format": "json"}})
        (line,) = [line for line in said.splitlines() if "next start" in line]
        assert json.loads(line)["keys"] == ["memory.limit"]
        assert json.loads(line)["level"] == "warning"
        assert "log.format" in said
        loud = len(toolgauge.said())
        toolgauge.reload_quietly({"memory": {"limit": "600MiB"}, "log": {"level": "warning"}})
        until(lambda: "memory.limit" in toolgauge.said()[loud:], "what waits for a start")
        quiet = len(toolgauge.said())
        toolgauge.reload_quietly({"memory": {"limit": "512MiB"}, "log": {"level": "warning"}})
        toolgauge.signal()
        assert toolgauge.ended() == 0
        assert "reloaded" not in toolgauge.said()[quiet:]


def test_registered_tools_are_read_again(tmp_path: Path):
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "find"}]')
    config: dict[str, Json] = {"tool_definitions": ["tools.json"]}
    with running(tmp_path, config) as toolgauge:
        tools.write_text('[{"name": "seek"}]')
        assert "the configuration was reloaded: registered tools have changed" in toolgauge.reload(config)
        assert "the configuration was reloaded: nothing has changed" in toolgauge.reload(config)
        tools.write_text("[]]")
        assert "tools.json: not valid JSON" in toolgauge.reload(config, "refused")
        # Two at once end with the last configuration.
        toolgauge.write({"criteria": [success("first")]})
        toolgauge.hang_up()
        toolgauge.write({"criteria": [success("second")]})
        for _ in range(5):
            toolgauge.hang_up()
        until(lambda: "criterion second is new" in toolgauge.said(), "the last configuration")


def test_hanging_up_before_and_during_the_end_changes_nothing_about_it(tmp_path: Path):
    (body,) = recorded("pydantic-ai", "tool_error")
    with receiving() as destination:
        with running(tmp_path, {"exporters": sending_to(destination)}) as toolgauge:
            for number in range(20):
                toolgauge.send(other_trace(body, number), "http")
            toolgauge.hang_up()
            toolgauge.signal()

            def ended() -> bool:
                toolgauge.hang_up()
                return not toolgauge.is_running()

            until(ended, "the end")
            assert toolgauge.ended(1) == 0
            assert "everything was delivered" in toolgauge.said()
        assert len(destination.spans()) == 60
        assert len(destination.scorecards()) == 20
