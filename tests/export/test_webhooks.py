"""Webhooks over real sockets: what is posted, what is repeated, what is dropped, and that no secret is logged."""

import json
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tests.export.fakes import MS, OK, Said, Seen, always, first, http_sink, until
from tests.export.test_regression_events import BEGAN, STREAM, UPDATED
from tests.wire.support import free_port
from toolgauge.export import webhooks
from toolgauge.export.regression_events import iso_time, regression_json, sentence
from toolgauge.export.settings import RetrySettings, WebhookSettings
from toolgauge.export.webhooks import MAX_WAITING, Webhooks, notice_sentence
from toolgauge.model.errors import ConfigError, StartError
from toolgauge.model.json import Json
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.regressions import Regression
from toolgauge.net.settings import ClientTls
from toolgauge.selfmetrics import WebhookMetrics
from toolgauge.settings import HOUR, REDACTED, SECOND

URL = "https://traces.example/{trace_id}"
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
    webhooks = Webhooks(settings, URL, metrics, user_agent="toolgauge/test")
    await webhooks.start()
    try:
        yield Running(webhooks, metrics)
    finally:
        await webhooks.close(60)


def to(seen: Seen, **values: object) -> WebhookSettings:
    return WebhookSettings.model_validate({"url": f"{seen.endpoint}/hook", "retry": FAST, **values})


def posted(seen: Seen, number: int = 0) -> Json:
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
        one.webhooks.put([REFUND, UPDATED])
        one.webhooks.put([search])
        await until(lambda: one.count("sent") == 2)
        one.webhooks.put([over(BEGAN)])
        one.webhooks.put([over(REFUND), over(search)])
        await until(lambda: one.count("sent") == 3)
        found = [incident_of(seen, number) for number in range(3)]
        assert [(each["id"], each["began"]) for each in found] == [("i-1", "2027-01-15T14:42:07.500Z")] * 3
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
    assert (events.due_s, events.take(math.inf)) == (None, [])
    events.add([BEGAN], 500.0)
    assert '"phase": "began"' in json.dumps(events.written(events.take(600.0)[0]))


@pytest.mark.parametrize("status", [429, 500, 599])
async def test_busy_webhook_is_asked_again(status: int):
    async with http_sink(first(2, Said(http_status=status))) as seen, running(to(seen)) as one:
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
    async with running(WebhookSettings(url=url, retry=retry)) as one:
        one.webhooks.put([BEGAN])
        await until(lambda: one.count("dropped") == 1)
        assert one.count("retried") >= 1
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "webhook webhook does not take notifications (connection: connection refused); retrying",
        "webhook webhook: 1 notifications dropped: connection",
    ]
    assert "hidden" not in caplog.text


async def test_answer_that_never_comes_does_not_hold_us_up():
    async with http_sink(always(Said(hang=True))) as seen:
        began_s = time.monotonic()
        metrics = WebhookMetrics(MetricRegistry())
        webhooks = Webhooks([to(seen)], URL, metrics, user_agent="test")
        await webhooks.start()
        webhooks.put([BEGAN])
        await webhooks.close(0.3)
        await webhooks.close(0.3)
        assert time.monotonic() - began_s < 8
        assert metrics.notifications.value(("webhook", "dropped")) == 1


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


async def test_put_before_the_start_and_after_the_end_is_ignored():
    async with http_sink(always(OK)) as seen:
        metrics = WebhookMetrics(MetricRegistry())
        webhooks = Webhooks([to(seen)], URL, metrics, user_agent="test")
        await webhooks.close(1)
        webhooks.put([BEGAN])
        await webhooks.start()
        await webhooks.close(1)
        webhooks.put([BEGAN])
        assert seen.arrived == []


async def test_certificate_that_cannot_be_read_and_header_that_cannot_be_sent_are_errors():
    def made(**values: object) -> Webhooks:
        settings = WebhookSettings.model_validate({"url": "https://a", **values})
        return Webhooks([settings], None, WebhookMetrics(MetricRegistry()), user_agent="test")

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


async def test_failed_runs_that_a_webhook_has_no_room_for_are_counted():
    async with http_sink(always(OK)) as seen, running(to(seen)) as one:
        one.webhooks.notify([FAILED] * (MAX_WAITING + 3))
        await until(lambda: one.count("dropped") == 3)
