"""Verdicts that people give on runs: in the web view of a running toolgauge, by events of others, over kills and restarts."""

import contextlib
import csv
import http.client
import re
from collections.abc import Generator
from io import StringIO
from pathlib import Path
from urllib.parse import urlencode

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import toolgauge as toolgauge_api
from tests.backends.fakes import Json
from tests.backends.test_recovery import Phoenix
from tests.http_server import answering
from tests.mcp_server.support import client, error_of, text_of
from tests.wire.destination import attributes, receiving
from tests.wire.support import Toolgauge, free_port, get, recorded, serving, to_grpc, until
from tests.wire.test_journal_restart import kill, state
from tests.wire.test_web_view import trace_links, web_port

HTML = {"Accept": "text/html"}
EVENT = "gen_ai.evaluation.result"


def post(port: int, form: dict[str, str], headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Post a form; the status, and the address that browsers go on to."""
    sent = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/verdict", urlencode(form), sent)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("Location", "")


def shown_run(toolgauge: Toolgauge) -> tuple[int, str]:
    """Send a run; the port of the web view, and the id of the run."""
    port = web_port(toolgauge)
    toolgauge.send_recorded("pydantic-ai", "tool_error")
    [link] = set(until(lambda: trace_links(port), "the trajectory"))
    return port, link.removeprefix("/trajectories/")


def verdicts(port: int) -> list[list[str]]:
    return [[row[0], *row[2:5]] for row in csv.reader(StringIO(get(port, "/verdicts.csv")))][1:]


def test_a_verdict_outlives_a_kill_right_after_the_answer(tmp_path: Path):
    with serving(tmp_path, state(tmp_path)) as toolgauge:
        port, run = shown_run(toolgauge)
        form = {"id": run, "verdict": "bad", "reason": "wrong\ncity", "back": "/trajectories?q=1"}
        assert post(port, form, HTML) == (303, "/trajectories?q=1")
        kill(toolgauge)
    with serving(tmp_path, state(tmp_path)) as toolgauge:
        port = web_port(toolgauge)
        assert verdicts(port) == [[run, "bad", "wrong city", "web view"]]
        assert trace_links(port) == [f"/trajectories/{run}"]
        assert post(port, {"id": run, "verdict": "good"}, HTML) == (303, f"/trajectories/{run}")
        assert verdicts(port) == [[run, "good", "", "web view"]]
        assert post(port, {"id": run, "verdict": "none"}) == (204, "")
        kill(toolgauge)
    with serving(tmp_path, state(tmp_path)) as toolgauge:
        port = web_port(toolgauge)
        assert verdicts(port) == []
        assert post(port, {"id": run, "verdict": "good"}) == (404, "")


def test_a_verdict_is_sent_on_as_an_event_and_compared_with_criteria(tmp_path: Path):
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port)) as toolgauge:
        port, run = shown_run(toolgauge)
        assert post(port, {"id": run, "verdict": "bad", "reason": "wrong city"}) == (204, "")

        [record] = until(lambda: [one for one in destination.events() if "verdict" in str(one)], "the event")
        assert (record.event_name, record.trace_id.hex()) == (EVENT, run)
        event = attributes(record)
        assert event["gen_ai.evaluation.name"] == "verdict"
        assert event["gen_ai.evaluation.score.label"] == "bad"
        assert event["gen_ai.evaluation.explanation"] == "wrong city"
        # The event came by here, and is no verdict of somebody else.
        assert [row[3] for row in verdicts(port)] == ["web view"]


def test_only_pages_of_ours_and_programs_change_anything(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        port, run = shown_run(toolgauge)
        form, own = {"id": run, "verdict": "bad"}, f"http://127.0.0.1:{port}"
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": f"http://127.0.0.1:{port + 1}"},
            {"Origin": f"https://127.0.0.1:{port}"},
            {"Origin": own, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
            {"Origin": own, "Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
            # DNS rebinding: the name is the attacker's, and the page is of the same origin.
            {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"},
        ):
            assert post(port, form, headers)[0] == 403, headers
        assert post(port, form, {"Content-Type": "text/plain"})[0] == 415
        assert verdicts(port) == []
        assert post(port, form, {"Origin": own, "Sec-Fetch-Site": "same-origin"})[0] == 204
        proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "gauge.example", "Origin": "https://gauge.example"}
        assert post(port, form, proxied)[0] == 204
        assert post(port, form)[0] == 204


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"verdict": "great"}, 400),
        ({"verdict": ""}, 400),
        ({"id": 32 * "0"}, 404),
        ({"back": "//evil.example/"}, 400),
        ({"back": "/\\evil.example"}, 400),
        ({"back": "https://evil.example/"}, 400),
        ({"back": "javascript:alert(1)"}, 400),
        ({"back": "/trajectories\r\nSet-Cookie: a=b"}, 400),
        ({"reason": 9000 * "x"}, 413),
    ],
)
def test_nonsense_changes_nothing(running: tuple[int, str], change: dict[str, str], status: int):
    port, run = running
    assert post(port, {"id": run, "verdict": "bad", **change}, HTML)[0] == status
    assert verdicts(port) == []


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[int, str]]:
    with serving(tmp_path_factory.mktemp("running")) as toolgauge:
        yield shown_run(toolgauge)


def test_beyond_loopback_verdicts_need_a_token(tmp_path: Path):
    anywhere = ("web.endpoint=0.0.0.0:0", "web.insecure=true")
    with serving(tmp_path, *anywhere) as toolgauge:
        port = int(until(lambda: re.search(r"web view on http://localhost:(\d+)", toolgauge.said()), "the address")[1])
        assert post(port, {"id": "a", "verdict": "bad"})[0] == 403
    with serving(tmp_path, *anywhere, "web.auth.token=t0ken") as toolgauge:
        port = int(until(lambda: re.search(r"web view on http://localhost:(\d+)", toolgauge.said()), "the address")[1])
        assert post(port, {"id": "a", "verdict": "bad"})[0] == 401
        assert post(port, {"id": "a", "verdict": "bad"}, {"Authorization": "Bearer t0ken"})[0] == 404


def by_others(trace_id: str, label: str, name: str = "thumbs", **more: str) -> bytes:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(event_name=EVENT)
    record.trace_id = bytes.fromhex(trace_id)
    texts = {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.label": label, **more}
    for key, text in texts.items():
        record.attributes.add(key=key).value.string_value = text
    return request.SerializeToString()


@pytest.mark.parametrize("workers", [1, 2])
def test_verdicts_of_others_arrive_before_or_after_the_run_and_give_way_to_a_persons(tmp_path: Path, workers: int):
    (body,) = recorded("pydantic-ai", "tool_error")
    run = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    why = {"gen_ai.evaluation.explanation": "=1+1, the wrong\x1b[31m city"}
    with serving(tmp_path, f"workers={workers}", state(tmp_path)) as toolgauge:
        port = web_port(toolgauge)
        toolgauge.send(by_others(run, "thumbs_down", **why), "http", path="/v1/logs")
        toolgauge.send(body, "http")
        assert until(lambda: verdicts(port), "the verdict") == [
            [run, "bad", "'=1+1, the wrong [31m city", "thumbs"],
        ]
        # Of others, a bad one stays; a person's stays in any case.
        toolgauge.send(by_others(run, "good", "relevance"), "http", path="/v1/logs")
        toolgauge.send(by_others(run, "good", "thumbs"), "http", path="/v1/logs")
        until(lambda: verdicts(port) == [[run, "good", "", "thumbs"]], "a later one of the same source")
        assert post(port, {"id": run, "verdict": "bad"})[0] == 204
        toolgauge.send(by_others(run, "good", "thumbs"), "http", path="/v1/logs")
        toolgauge.send(
            by_others(run, "good", "verdict", **{"toolgauge.verdict.source": "toolgauge.mark"}), "http", path="/v1/logs"
        )
        until(lambda: verdicts(port) == [[run, "good", "", "toolgauge.mark"]], "a mark, which is a person's")
        assert toolgauge.total("toolgauge_web_verdicts_total") == 4
        kill(toolgauge)
    with serving(tmp_path, f"workers={workers}", state(tmp_path)) as toolgauge:
        assert verdicts(web_port(toolgauge)) == [[run, "good", "", "toolgauge.mark"]]


@pytest.mark.parametrize("workers", [1, 2])
def test_verdicts_of_people_are_scores_by_a_human_in_the_backend(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
):
    Phoenix.taken, Phoenix.status = [], 200
    with (
        answering(Phoenix) as url,
        serving(tmp_path, f"workers={workers}", f"exporters.phoenix.endpoint={url}", state(tmp_path)) as toolgauge,
    ):
        port, run = shown_run(toolgauge)

        def by_people() -> list[tuple[object, object]]:
            scores: list[Json] = [one for one in Phoenix.taken if one["annotator_kind"] == "HUMAN"]
            assert {(one["name"], one["identifier"]) for one in scores} <= {("verdict", "toolgauge:verdict")}
            return [(one["result"]["score"], one["result"]["explanation"]) for one in scores]

        assert post(port, {"id": run, "verdict": "bad", "reason": "wrong city"})[0] == 204
        until(lambda: by_people() == [(0.0, "wrong city")], "the score")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{toolgauge.http_port}/")
        toolgauge_api.mark(run.upper(), "good", "the city is right\ud800")
        until(lambda: by_people() == [(0.0, "wrong city"), (1.0, "the city is right\ufffd")], "the score of the mark")
        assert verdicts(port) == [[run, "good", "the city is right\ufffd", "toolgauge.mark"]]
        assert post(port, {"id": run, "verdict": "none"})[0] == 204
        assert verdicts(port) == []


def test_a_mark_that_nobody_takes_is_an_error_and_a_token_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run, port = 32 * "a", free_port()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", f"http://127.0.0.1:{port}/v1/logs")
    with pytest.raises(toolgauge_api.ToolgaugeError, match=r"nobody took the verdict: cannot reach"):
        toolgauge_api.mark(run, "bad")
    for asked, word in (("a1", "bad"), (32 * "0", "bad"), (run, "so-so")):
        with pytest.raises(toolgauge_api.ConfigError):
            toolgauge_api.mark(asked, word)  # pyright: ignore[reportArgumentType]
    with pytest.raises(toolgauge_api.ConfigError, match="must be a URL"):
        toolgauge_api.mark(run, "bad", endpoint="localhost:4318")
    with serving(tmp_path, "receivers.otlp.protocols.http.auth.token=t0ken") as toolgauge:
        url = f"http://127.0.0.1:{toolgauge.http_port}"
        with pytest.raises(toolgauge_api.ToolgaugeError, match="HTTP status 401"):
            toolgauge_api.mark(run, "bad", endpoint=url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken")
        toolgauge_api.mark(run, "bad", endpoint=url)


async def test_a_coding_agent_marks_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with serving(tmp_path) as toolgauge:
        port, run = shown_run(toolgauge)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{toolgauge.http_port}")
        async with client(tmp_path) as asked:
            answer = await asked.call_tool("mark_run", {"trace": run, "verdict": "bad", "why": "wrong city"})
            wrong = await asked.call_tool("mark_run", {"trace": "a1", "verdict": "bad"})
        assert text_of(answer) == f"trace {run} is marked bad"
        assert "error: a trace id has 32 hexadecimal digits" in error_of(wrong)
        until(lambda: verdicts(port) == [[run, "bad", "wrong city", "toolgauge.mark"]], "the mark")
