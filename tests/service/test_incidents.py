"""Of failed runs, people are told of the first of an incident, and of few a minute."""

from msgspec.structs import replace

from toolgauge.export.webhooks import Webhooks
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.watching import PER_MINUTE, Notifier
from toolgauge.settings import HOUR, MINUTE, SECOND

START = 1_800_000_000 * SECOND
FAILED = Notice(
    service="shop",
    agent="orders",
    tool="refund",
    criterion="no-refunds",
    trace_id="a" * 32,
    explanation="a rule forbids `refund`",
    at_ns=START,
)


def notifier() -> Notifier:
    webhooks = Webhooks((), None, SelfMetrics(MetricRegistry()).webhook, user_agent="toolgauge")
    return Notifier(webhooks, lambda: START)


def run(number: int) -> Notice:
    return replace(FAILED, trace_id=f"{number:032x}")


def test_an_incident_is_told_once_and_again_after_an_hour_of_quiet():
    incidents = notifier()
    told = [
        minutes
        for minutes in (0, 1, 50, 100, 159, 220, 221)
        if incidents.is_new(run(minutes), START + minutes * MINUTE)
    ]
    assert told == [0, 220]


def test_another_service_agent_tool_or_criterion_is_another_incident():
    incidents = notifier()
    others = [
        replace(run(number), **{key: "other"}) for number, key in enumerate(("service", "agent", "tool", "criterion"))
    ]
    assert [incidents.is_new(one, START) for one in (FAILED, *others)] == [True] * 5


def test_a_run_that_was_told_while_it_went_on_is_not_told_when_it_is_scored():
    incidents = notifier()
    assert incidents.is_new(replace(FAILED, agent=None, is_open=True), START)
    assert not incidents.is_new(FAILED, START + 2 * HOUR)
    assert not incidents.is_new(run(1), START + 2 * HOUR + MINUTE)


def test_few_are_told_in_a_minute_and_the_others_where_they_fail_again():
    incidents = notifier()
    many = [replace(run(number), tool=f"tool-{number}") for number in range(PER_MINUTE + 5)]
    assert sum(incidents.is_new(one, START) for one in many) == PER_MINUTE
    assert incidents.left_out == 5
    assert sum(incidents.is_new(one, START + MINUTE) for one in many) == 5


def test_what_is_remembered_is_bounded():
    incidents = notifier()
    for number in range(10_100):
        incidents.is_new(replace(run(number), tool=f"tool-{number}"), START + number * MINUTE)
    assert len(incidents.heard_ns) == 10_000
