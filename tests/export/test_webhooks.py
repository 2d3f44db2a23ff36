"""Webhooks over real sockets: what is posted, what is repeated, what is dropped, and that no secret is logged."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.certificates import certificates
from tests.export.fakes import MS, OK, Said, Seen, always, first, http_sink, until
from tests.export.test_regression_events import BEGAN, CAUSE_WORDS, ENDED, STREAM, UPDATED
from tests.rows import each_row
from tests.wire.support import free_port
from toolgauge.export import webhooks
from toolgauge.export.failed_runs import notice_sentence
from toolgauge.export.regression_events import iso_time, regression_json, sentence
from toolgauge.export.settings import RetrySettings, WebhookSettings
from toolgauge.export.webhooks import MAX_WAITING, Webhooks
from toolgauge.model.errors import ConfigError, StartError
from toolgauge.model.json import Json
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.regressions import Regression
from toolgauge.net.settings import ClientTls
from toolgauge.selfmetrics import WebhookMetrics
from toolgauge.settings import HOUR, REDACTED, SECOND

URL = "https://traces.example/{trace_id}"
NOW_NS = BEGAN.at_ns + 10 * SECOND
FAST = RetrySettings(initial_interval=10 * MS, max_interval=20 * MS, max_elapsed_time=30 * SECOND)


class Running:
    def __init__(self, webhooks: Webhooks, metrics: WebhookMetrics) -> None:
        self.webhooks = webhooks
        self.metrics = metrics

    def count(self, outcome: str, name: str = "webhook") -> float:
        return self.metrics.notifications.value((name, outcome))


@asynccontextmanager
async def running(*settings: WebhookSettings) -> AsyncGenerator[Running]:
    metrics = WebhookMetrics(MetricRegistry())
    webhooks = Webhooks(settings, URL, metrics, clock=lambda: NOW_NS, user_agent="toolgauge/test")
    await webhooks.start()
    try:
        yield Running(webhooks, metrics)
    finally:
        await webhooks.close(60)


def to(seen: Seen, **values: object) -> WebhookSettings:
    return WebhookSettings.model_validate({"url": f"{seen.endpoint}/hook", "retry": FAST, **values})


def posted(seen: Seen, number: int = 0) -> Json:
    return json.loads(seen.bodies[number])


def alerts(seen: Seen, number: int = 0) -> list[dict[str, dict[str, str]]]:
    return json.loads(seen.bodies[number])


async def test_what_begins_together_is_one_message():
    other = replace(BEGAN, stream=replace(STREAM, tool="refund"))
    async with http_sink(always(OK)) as seen:
        async with running(to(seen, headers={"Authorization": "Bearer s3cret"})) as one:
            one.webhooks.put([BEGAN])
            one.webhooks.put([other])
        assert [path for path, _ in seen.arrived] == ["/hook"]
        assert posted(seen) == {
            "version": 1,
            "incident": {
                "id": "i-1",
                "phase": "began",
                "sentence": f"{sentence(BEGAN)}, and with it `default.tool_success` of `refund`",
                "began": "2027-01-15T14:42:07.500Z",
                "streams": 2,
                "lasting": 2,
            },
            "regressions": [regression_json(BEGAN, URL), regression_json(other, URL)],
        }
        assert seen.headers[0]["authorization"] == "Bearer s3cret"
        assert seen.headers[0]["content-type"] == "application/json"
        assert seen.headers[0]["user-agent"] == "toolgauge/test"
        assert (one.count("sent"), one.count("retried"), one.count("dropped")) == (1, 0, 0)


async def test_alert_goes_out_at_once_with_the_labels_of_its_stream():
    async with http_sink(always(OK)) as seen, running(to(seen, format="alertmanager", url=seen.endpoint)) as one:
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("sent") == 1)
        assert [path for path, _ in seen.arrived] == ["/api/v2/alerts"]
        before, newer, after = (f"https://traces.example/{letter * 32}" for letter in "bca")
        assert posted(seen) == [
            {
                "labels": {
                    "alertname": "ToolgaugeQualityRegression",
                    "severity": "warning",
                    "incident": "i-1",
                    "toolgauge_service": "shop",
                    "deployment_environment_name": "production",
                    "gen_ai_agent_name": "orders",
                    "gen_ai_tool_name": "find_order",
                    "gen_ai_evaluation_name": "default.tool_success",
                    "toolgauge_criterion_revision": "9f86d081884c",
                    "toolgauge_level": "call",
                },
                "annotations": {
                    "summary": sentence(BEGAN),
                    "description": "Mean score 0.84 (95 % interval 0.72 to 0.93) of 41 conversations since "
                    "2027-01-15T14:02:07.000Z; baseline 0.97.",
                    "cause": CAUSE_WORDS,
                    "onset": "2027-01-15T14:02:07.500Z",
                    "traces_before": before,
                    "traces_after": f"{newer} {after}",
                },
                "startsAt": "2027-01-15T14:42:07.500Z",
                "endsAt": "2027-01-15T14:46:17.500Z",
                "generatorURL": newer,
            }
        ]


async def test_end_resolves_the_alert_and_is_not_repeated():
    async with http_sink(always(OK)) as seen:
        async with running(to(seen, format="alertmanager")) as one:
            one.webhooks.put([BEGAN])
            await until(lambda: one.count("sent") == 1)
            one.webhooks.put([replace(ENDED, at_ns=BEGAN.at_ns + 5 * SECOND)])
            await until(lambda: one.count("sent") == 2)
        (alert,) = alerts(seen, 1)
        assert (alert["startsAt"], alert["endsAt"]) == ("2027-01-15T14:42:07.500Z", "2027-01-15T14:42:12.500Z")
        assert alert["annotations"]["summary"] == sentence(replace(ENDED, at_ns=BEGAN.at_ns + 5 * SECOND))
        assert len(seen.arrived) == 2


async def test_alert_that_lasts_is_kept_alive_over_a_restart():
    async with http_sink(always(OK)) as seen:
        async with running(to(seen, format="alertmanager")) as one:
            one.webhooks.set_active([BEGAN])
            await until(lambda: one.count("sent") == 1)
        # The last one is that of the stop: it has more time until the next process.
        assert len(seen.arrived) == 2
        assert [alerts(seen, number)[0]["endsAt"] for number in (0, 1)] == ["2027-01-15T14:46:17.500Z"] * 2


async def test_another_cause_is_the_same_alert_with_another_annotation():
    async with http_sink(always(OK)) as seen, running(to(seen, format="alertmanager")) as one:
        one.webhooks.put([replace(BEGAN, causes=())])
        await until(lambda: one.count("sent") == 1)
        one.webhooks.put([UPDATED])
        await until(lambda: one.count("sent") == 2)
        ((before,), (after,)) = alerts(seen, 0), alerts(seen, 1)
        assert (after["labels"], after["startsAt"]) == (before["labels"], before["startsAt"])
        assert before["annotations"]["cause"] == "none of the recorded properties changed with it"
        assert after["annotations"]["cause"] == CAUSE_WORDS
        assert after["annotations"]["summary"] == sentence(replace(UPDATED, at_ns=BEGAN.at_ns))


def incident_of(seen: Seen, number: int = 0) -> dict[str, Json]:
    return json.loads(seen.bodies[number])["incident"]


REFUND = replace(BEGAN, stream=replace(STREAM, tool="refund"), current=0.3)


def over(regression: Regression) -> Regression:
    return replace(regression, phase="ended", at_ns=regression.at_ns + HOUR, current=regression.baseline)


async def test_an_incident_is_one_message_then_one_update_and_one_recovery(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(webhooks, "GROUP_S", 0.02)
    search = replace(BEGAN, stream=replace(STREAM, tool="search"))
    async with http_sink(always(OK)) as seen, running(to(seen)) as one:
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("sent") == 1)
        one.webhooks.put([REFUND])
        one.webhooks.put([search])
        await until(lambda: one.count("sent") == 2)
        one.webhooks.put([over(BEGAN)])
        one.webhooks.put([over(REFUND), over(search)])
        await until(lambda: one.count("sent") == 3)
        found = [incident_of(seen, number) for number in range(3)]
        assert [each["id"] for each in found] == ["i-1"] * 3
        assert [(each["phase"], each["streams"], each["lasting"]) for each in found] == [
            ("began", 1, 1),
            ("updated", 3, 3),
            ("ended", 3, 0),
        ]
        # The largest drop comes first.
        assert found[1]["sentence"] == (
            f"{sentence(REFUND)}, and with it `default.tool_success` of `find_order` and `default.tool_success` of `search`"
        )
    assert len(seen.bodies) == 3


async def test_two_incidents_are_two_messages():
    async with http_sink(always(OK)) as seen:
        async with running(to(seen)) as one:
            one.webhooks.put([BEGAN, replace(REFUND, incident="i-2")])
        assert [incident_of(seen, number)["id"] for number in range(2)] == ["i-1", "i-2"]


async def test_after_a_restart_an_incident_is_announced_by_its_news_alone():
    async with http_sink(always(OK)) as seen:
        async with running(to(seen)) as one:
            one.webhooks.set_active([BEGAN, REFUND])
            one.webhooks.put([over(BEGAN)])
        assert seen.bodies == []
        async with running(to(seen)) as one:
            one.webhooks.set_active([REFUND])
            one.webhooks.put([replace(BEGAN, stream=replace(STREAM, tool="search"))])
        assert (incident_of(seen)["phase"], incident_of(seen)["streams"]) == ("updated", 2)
        async with running(to(seen)) as one:
            one.webhooks.set_active([REFUND])
            one.webhooks.put([over(REFUND)])
        assert incident_of(seen, 1)["phase"] == "ended"


def test_streams_that_join_one_by_one_are_few_updates_and_none_waits_more_than_a_minute():
    events = webhooks.Events(None)
    sent: list[float] = []
    for second in range(600):
        events.add([replace(BEGAN, stream=replace(STREAM, tool=f"tool{second}"))], float(second))
        if events.due_s is not None and events.due_s <= second:
            ((*alerts,),) = events.take(second)
            events.settle(alerts)
            sent.append(second)
    # 2 s after the first alarm, then twice as long from one to the next.
    assert sent[:6] == [2.0, 6.0, 14.0, 30.0, 62.0, 122.0]
    assert len(sent) == 13


def test_an_end_that_was_delivered_is_forgotten_and_one_that_was_overtaken_is_not():
    events = webhooks.Events(None)
    events.add([BEGAN], 0.0)
    (began,) = events.take(2.0)
    events.add([over(BEGAN)], 2.5)
    events.settle(began)
    (ended,) = events.take(90.0)
    events.add([REFUND], 90.5)
    events.settle(ended)
    (again,) = events.take(200.0)
    assert [alert.newest.phase for alert in again if isinstance(alert, webhooks.Alert)] == ["began", "ended"]
    events.add([over(REFUND)], 300.0)
    events.settle(events.take(400.0)[0])
    assert (events.due_s, events.abandoned()) == (None, 0)
    events.add([BEGAN], 500.0)
    assert '"phase": "began"' in json.dumps(events.written(events.take(600.0)[0], NOW_NS))


def test_alert_is_due_again_a_minute_after_it_was_sent():
    batch = webhooks.Alerts(None)
    assert batch.due_s is None
    batch.add([BEGAN], 100.0)
    assert batch.due_s == 100.0
    ((sent,),) = batch.take(100.5)
    batch.settle([sent])
    assert batch.due_s == 160.5
    batch.add([ENDED], 130.0)
    assert batch.due_s == 130.0
    ((ended,),) = batch.take(130.0)
    # It began again while its end was on the way.
    batch.add([BEGAN], 131.0)
    batch.settle([ended])
    assert batch.due_s == 131.0
    batch.add([ENDED], 132.0)
    batch.settle(batch.take(132.0)[0])
    assert (batch.due_s, batch.take(140.0)) == (None, [])


def test_alerts_are_bounded_and_sent_in_parts():
    batch = webhooks.Alerts(None)
    many = [replace(BEGAN, stream=replace(STREAM, tool=f"tool{number}")) for number in range(5003)]
    assert batch.add(many[:130], 0.0) == 0
    assert [len(part) for part in batch.take(0.0)] == [64, 64, 2]
    assert batch.add(many, 0.0) == 3


@each_row(
    ("url", "path"),
    [
        ("http://a:9093", "http://a:9093/api/v2/alerts"),
        ("http://a:9093/", "http://a:9093/api/v2/alerts"),
        ("http://a/am/?x=1", "http://a/am/api/v2/alerts?x=1"),
        ("http://a:9093/api/v2/alerts", "http://a:9093/api/v2/alerts"),
    ],
)
def test_url_of_an_alertmanager_is_its_base_or_whole(url: str, path: str):
    assert webhooks.alerts_url(url) == path


@pytest.mark.parametrize("status", [429, 500, 599])
async def test_busy_webhook_is_asked_again(status: int):
    async with http_sink(first(2, Said(http_status=status))) as seen, running(to(seen, format="alertmanager")) as one:
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("sent") == 1)
        assert (one.count("retried"), one.count("dropped"), len(seen.arrived)) == (2, 0, 3)


@pytest.mark.parametrize("status", [302, 401, 410])
async def test_refusal_is_final_and_redirects_are_not_followed(status: int, caplog: pytest.LogCaptureFixture):
    secret = {"url": "", "headers": {"X-Key": "hidden-key"}}
    async with http_sink(always(Said(http_status=status, response=b"hidden-answer"))) as seen:
        secret["url"] = f"{seen.endpoint.replace('//', '//me:hidden-password@')}/hidden-path?token=hidden-token"
        async with running(to(seen, name="chat", **secret)) as one:
            one.webhooks.put([BEGAN])
        assert (one.count("dropped", "chat"), one.count("retried", "chat"), len(seen.arrived)) == (1, 0, 1)
    assert f"webhook chat: 1 notifications dropped: http_{status}" in caplog.text
    assert "hidden" not in caplog.text


async def test_webhook_that_is_away_is_given_up_after_a_while(caplog: pytest.LogCaptureFixture):
    url = f"http://127.0.0.1:{free_port()}/hidden"
    # On a busy machine one attempt takes more than some milliseconds.
    retry = RetrySettings(initial_interval=50 * MS, max_interval=50 * MS, max_elapsed_time=300 * MS)
    async with running(WebhookSettings(url=url, retry=retry, format="alertmanager")) as one:
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("dropped") == 1)
        assert one.count("retried") >= 1
    assert "webhook webhook: 1 notifications dropped: connection" in caplog.text
    assert "hidden" not in caplog.text


async def test_answer_that_never_comes_or_never_ends_does_not_hold_us_up():
    async with http_sink(always(Said(hang=True))) as seen:
        began_s = time.monotonic()
        metrics = WebhookMetrics(MetricRegistry())
        webhooks = Webhooks([to(seen)], URL, metrics, clock=lambda: NOW_NS, user_agent="test")
        await webhooks.start()
        webhooks.put([BEGAN])
        await webhooks.close(0.3)
        await webhooks.close(0.3)
        assert time.monotonic() - began_s < 8
        assert metrics.notifications.value(("webhook", "dropped")) == 1
    async with (
        http_sink(always(Said(response=bytes(8_000_000)))) as seen,
        running(to(seen, format="alertmanager")) as one,
    ):
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("sent") == 1)


async def test_streams_beyond_those_that_are_known_are_dropped_and_counted():
    many = [replace(BEGAN, stream=replace(STREAM, tool=f"tool{number}")) for number in range(5002)]
    async with http_sink(always(OK)) as seen:
        async with running(to(seen)) as one:
            one.webhooks.put(many)
        assert (one.count("dropped"), one.count("sent")) == (2, 1)
        assert incident_of(seen)["streams"] == 5000
        assert len(json.loads(seen.bodies[0])["regressions"]) == 100


async def test_each_webhook_has_a_name():
    async with http_sink(always(OK)) as seen:
        async with running(to(seen), to(seen), to(seen, name="chat")) as one:
            one.webhooks.put([BEGAN])
        assert [one.count("sent", name) for name in ("webhook", "webhook/2", "chat")] == [1, 1, 1]


async def test_put_works_in_another_thread():
    async with http_sink(always(OK)) as seen, running(to(seen, format="alertmanager")) as one:
        await asyncio.to_thread(one.webhooks.put, [BEGAN])
        await until(lambda: one.count("sent") == 1)


async def test_put_before_the_start_and_after_the_end_is_ignored():
    async with http_sink(always(OK)) as seen:
        metrics = WebhookMetrics(MetricRegistry())
        webhooks = Webhooks([to(seen)], URL, metrics, clock=lambda: NOW_NS, user_agent="test")
        await webhooks.close(1)
        webhooks.put([BEGAN])
        await webhooks.start()
        await webhooks.close(1)
        webhooks.put([BEGAN])
        assert seen.arrived == []


async def test_certificate_that_cannot_be_read_and_header_that_cannot_be_sent_are_errors():
    def made(**values: object) -> Webhooks:
        settings = WebhookSettings.model_validate({"url": "https://a", **values})
        return Webhooks([settings], None, WebhookMetrics(MetricRegistry()), clock=lambda: NOW_NS, user_agent="test")

    webhooks = made(tls=ClientTls(ca_file="/nowhere/ca.pem"))
    with pytest.raises(StartError, match="TLS file"):
        await webhooks.start()
    await webhooks.close(1)
    with pytest.raises(ConfigError, match="header `X Key` of destination `webhook`"):
        made(headers={"X Key": "1"})


def test_url_and_headers_are_shown_without_what_may_be_secret():
    settings = WebhookSettings(url="https://me:pw@hooks.example:8443/T00/B00/xyz?key=1", headers={"X-Key": "secret"})
    assert settings.model_dump(mode="json")["url"] == f"https://hooks.example:8443/{REDACTED}"
    assert settings.model_dump(mode="json")["headers"] == {"X-Key": REDACTED}
    assert "xyz" not in repr(settings)
    assert "secret" not in repr(settings)


def test_odd_regressions_make_alerts_all_the_same():
    bare = replace(BEGAN, causes=(), properties=0, before=(), after=(), at_ns=NOW_NS + 3600 * SECOND)
    written = webhooks.Alerts(None)
    written.add([_ended_later(bare)], 0.0)
    (part,) = written.take(0.0)
    (alert,) = json.loads(json.dumps(written.written(part, NOW_NS)))
    assert alert["startsAt"] == alert["endsAt"] == "2027-01-15T14:42:17.500Z"
    assert "generatorURL" not in alert
    assert set(alert["annotations"]) == {"summary", "description", "onset"}


def _ended_later(regression: Regression) -> Regression:
    return replace(regression, phase="ended", at_ns=regression.at_ns + SECOND)


async def test_the_log_says_once_a_minute_why_a_webhook_is_not_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    made = certificates(tmp_path)
    made.renew_server(lasts_days=(-9, -2))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.server_cert, made.server_key)
    async with (
        http_sink(always(OK), context) as seen,
        running(to(seen, tls=ClientTls(ca_file=str(made.ca_file)))) as one,
    ):
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("retried") > 1)
        await one.webhooks.close(0)
    said = [record.getMessage() for record in caplog.records if "retrying" in record.getMessage()]
    assert said == ["webhook webhook does not take notifications (tls: its certificate has expired); retrying"]


FAILED = Notice(
    service="shop",
    agent="orders",
    tool="refund",
    criterion="no-refunds",
    trace_id="d" * 32,
    explanation="a rule forbids `refund`",
    at_ns=BEGAN.at_ns,
    is_marked=True,
)
FAILED_JSON = {
    "sentence": "`no-refunds` of `refund` in a run of agent `orders` of service `shop` failed: a rule forbids `refund`",
    "service": "shop",
    "agent": "orders",
    "tool": "refund",
    "criterion": "no-refunds",
    "explanation": "a rule forbids `refund`",
    "is_open": False,
    "at": "2027-01-15T08:42:07.500Z",
    "trace_id": "d" * 32,
    "url": f"https://traces.example/{'d' * 32}",
}


async def test_a_failed_run_is_told_at_once_with_its_link_and_explanation():
    async with http_sink(always(OK)) as seen, running(to(seen)) as one:
        began_s = time.monotonic()
        one.webhooks.notify([FAILED])
        await until(lambda: one.count("sent") == 1)
        assert time.monotonic() - began_s < 2
        assert posted(seen) == {
            "version": 1,
            "regressions": [],
            "failures": [{**FAILED_JSON, "at": iso_time(FAILED.at_ns)}],
        }


def test_an_explanation_mentions_nobody_in_a_chat():
    hostile = replace(FAILED, tool="<!channel>", explanation="a <!here>\nb")
    assert notice_sentence(hostile).count("\ufffd") == 4
    assert notice_sentence(hostile).endswith("!here\ufffd b")


async def test_a_webhook_that_names_criteria_is_told_of_these_alone():
    other = replace(FAILED, criterion="other", is_marked=False)
    async with http_sink(always(OK)) as seen:
        async with running(to(seen, notify=["oth*"]), to(seen, notify=[]), to(seen)) as one:
            one.webhooks.notify([FAILED, other])
            await until(lambda: one.count("sent") + one.count("sent", "webhook/3") == 2)
        assert one.count("sent", "webhook/2") == 0
        told = {tuple(each["criterion"] for each in json.loads(body)["failures"]) for body in seen.bodies}
        assert told == {("other",), ("no-refunds",)}


async def test_a_failed_run_is_an_alert_that_ends_by_itself_and_is_sent_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(webhooks, "RESEND_S", 0.05)
    async with http_sink(always(OK)) as seen, running(to(seen, format="alertmanager", url=seen.endpoint)) as one:
        one.webhooks.notify([FAILED])
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("sent") >= 3)
    sent = [alert for number in range(len(seen.bodies)) for alert in alerts(seen, number)]
    (alert,) = [alert for alert in sent if alert["labels"]["alertname"] == "ToolgaugeFailedRun"]
    assert alert["labels"] == {
        "alertname": "ToolgaugeFailedRun",
        "severity": "warning",
        "toolgauge_service": "shop",
        "gen_ai_agent_name": "orders",
        "gen_ai_tool_name": "refund",
        "gen_ai_evaluation_name": "no-refunds",
    }
    assert alert["annotations"]["summary"] == FAILED_JSON["sentence"]
    assert (alert["startsAt"], alert["endsAt"]) == (iso_time(FAILED.at_ns), iso_time(FAILED.at_ns + HOUR))
    assert alert["generatorURL"] == FAILED_JSON["url"]


async def test_failed_runs_that_a_webhook_has_no_room_for_are_counted():
    async with http_sink(always(OK)) as seen, running(to(seen)) as one:
        one.webhooks.notify([FAILED] * (MAX_WAITING + 3))
        await until(lambda: one.count("dropped") == 3)
