"""The pages of streams: what people read there, and that names stay text."""

import re

from msgspec.structs import replace

from tests.export.scorecards import trajectory
from tests.watch.behaviour_simulation import conversation
from tests.watch.support import SECOND, START, Traffic, result, scorecard, scored, watcher
from tests.web.streams import Parsed, page, shown, worse_release
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Stream
from toolgauge.web.pages import PageContent
from toolgauge.web.stream_pages import ack_command, stream_id, streams

STREAM = Stream(
    service="support",
    environment=None,
    agent="refund-agent",
    tool="find_order",
    criterion="default.tool_success",
    revision="r1",
    level="call",
)


async def overview(over: PageContent, **query: str) -> Parsed:
    html = await page(streams, over, "streams", query=query)
    assert html is not None
    return Parsed(html)


async def one(over: PageContent, stream: Stream, **query: str) -> Parsed:
    html = await page(streams, over, "streams", stream_id(stream), query=query)
    assert html is not None
    return Parsed(html)


async def test_streams_in_alarm_come_first_with_what_has_dropped() -> None:
    traffic = worse_release(watcher())
    traffic.send(60, every=20, service="another")
    found = await overview(shown(traffic.watcher))
    rows = re.findall(r"(alarm|watching) default\.tool_success (?:tool find_order|all tools)", found.words)
    assert rows == ["alarm", "alarm", "watching", "watching"]
    status = next(each for each in traffic.watcher.statuses() if each.stream == STREAM)
    assert status.baseline is not None
    assert status.current is not None
    assert f"1.0, 1.1 {status.baseline:.3f} {status.current:.3f} {status.baseline - status.current:.3f}" in found.words
    assert found.count("svg", class_="spark") == 4


async def test_many_streams_are_pages_of_fifty() -> None:
    watching = watcher(max_streams=200)
    for number in range(60):
        watching.observe(scorecard(number + 1, [(f"tool-{number}", 1.0)], at_ns=START, service=f"s{number}"))
    over = shown(watching)
    found = await overview(over, page="3")
    assert "101 to 120 of 120 streams" in found.words
    assert found.count("tr") == 21
    assert found.count("a", rel="prev", href="/streams?page=2") == 1
    assert found.count("a", rel="next") == 0
    assert "No stream matches." in (await overview(over, page="4")).words


async def test_a_stream_shows_its_alarm_its_examples_and_how_to_accept_it() -> None:
    traffic = worse_release(watcher())
    regression = next(each for each in traffic.regressions if each.stream == STREAM)
    kept_id, before_id = regression.after[0], regression.before[0]
    over = shown(traffic.watcher, trace_url="https://traces.example/{trace_id}")
    judged = replace(trajectory(), trace_id=kept_id)
    over.store.add(Scorecard(trajectory=judged, results=(result(scored(0.0), "find_order"),), scored_at_ns=START))
    found = await one(over, STREAM)
    assert "default.tool_success of find_order fell from 0.95 to" in found.words
    assert "with version 1.1" in found.words
    assert "What changed service.version changed from 1.0 to 1.1 at" in found.words
    assert found.count("a", href=f"/trajectories/{kept_id}") == 1
    assert found.count("a", href=f"/trajectories/{before_id}") == 0
    assert found.count("a", href=f"https://traces.example/{before_id}") == 1
    assert (
        "toolgauge ack --criterion default.tool_success --service support --environment '' --agent refund-agent "
        "--tool find_order --level call"
    ) in found.words
    assert (
        found.count(
            "a", href="/trajectories?outcome=failed&service=support&tool=find_order&criterion=default.tool_success"
        )
        == 1
    )
    of_cause = "&criterion=default.tool_success&run_property=service.version%3D1.1"
    assert found.count("a", href=f"/trajectories?outcome=failed&service=support&tool=find_order{of_cause}") == 1


async def test_the_chart_has_the_alarm_the_versions_and_its_figures_as_a_table() -> None:
    traffic = worse_release(watcher())
    found = await one(shown(traffic.watcher), STREAM)
    assert found.count("svg", class_="wide") == found.count("svg", class_="narrow") == 1
    assert found.count("rect", class_="alarm-band") == 2
    assert found.count("text", class_="version-label") == 2
    assert found.count("line", class_="baseline") == 2
    titles = [attributes.get("aria-labelledby") for name, attributes in found.elements if name == "svg"]
    assert titles == ["chart-wide-title chart-wide-desc", "chart-narrow-title chart-narrow-desc"]
    assert not [attributes for _, attributes in found.elements if "style" in attributes]
    wide = sum(1 for name, attributes in found.elements if name == "circle" and attributes.get("class") == "point")
    history = traffic.watcher.histories([STREAM])[0]
    assert sum(each.observations for each in history.buckets) == 360
    rows = re.search(r"The figures of the chart(.*?)Versions", found.words)
    assert rows is not None
    figures = re.findall(r"UTC\)|(\d+) (\d\.\d{3}) (\d\.\d{3}) to (\d\.\d{3})", rows[1])
    observations = [int(each[0]) for each in figures if each[0]]
    assert sum(observations) == 360
    assert len(observations) < wide


async def test_names_of_streams_stay_text() -> None:
    hostile = "<script>alert(1)</script>\"'`\u202e$(id)"
    watching = watcher(baseline_min=20)
    traffic = Traffic(watching)
    for number in range(60):
        traffic.number += 1
        value = 0.0 if number > 40 else 1.0
        card = scorecard(
            number + 1, [(hostile, value)], at_ns=traffic.now_ns, service=hostile, version=f"{hostile}{number > 40}"
        )
        judged = replace(card.results[0], criterion=hostile)
        traffic.regressions.extend(watching.observe(replace(card, results=(judged,))))
    assert traffic.regressions
    over = shown(watching)
    for status in watching.statuses():
        for found in (await overview(over, service=hostile), await one(over, status.stream)):
            scripts = [attributes for name, attributes in found.elements if name == "script"]
            assert scripts == [{"src": "/static/toolgauge.js", "defer": None}]
            assert "<script>alert(1)</script>" in found.text
            assert "\u202e" not in found.text
            assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]


def test_the_command_to_accept_is_safe_to_paste() -> None:
    stream = Stream(
        service="a b; rm -rf ~", environment="$(id)", agent=None, tool="it's", criterion="c", revision="r", level="call"
    )
    assert ack_command(stream) == (
        "toolgauge ack --criterion c --service 'a b; rm -rf ~' --environment '$(id)' --agent '' "
        "--tool 'it'\"'\"'s' --level call"
    )


async def test_long_histories_offer_ranges_and_begin_with_the_one_of_the_alarm() -> None:
    watching = watcher()
    hour = 3600 * SECOND
    for number in range(400):
        value = 0.0 if number >= 380 and number % 2 else 1.0 if number % 20 else 0.0
        watching.observe(scorecard(number + 1, [("find_order", value)], at_ns=START + number * hour))
    over = shown(watching)
    (alarm,) = [each for each in watching.active() if each.stream.tool == "find_order"]
    assert alarm.onset_ns > START + 370 * hour
    found = await one(over, STREAM)
    ranges = [attributes for name, attributes in found.elements if name == "a" and attributes.get("class") == "button"]
    assert [each.get("href", "") for each in ranges] == [
        f"/streams/{stream_id(STREAM)}?range={name}" for name in ("3h", "1d", "7d", "all")
    ]
    assert [each.get("aria-current") for each in ranges] == [None, None, "true", None]
    whole = await one(over, STREAM, range="all")
    assert whole.count("circle", class_="point") > found.count("circle", class_="point")


async def test_a_stream_of_behaviour_says_in_words_what_its_score_is() -> None:
    watching = watcher(None, behaviour=["before"])
    for number in range(80):
        tools = ["find_order", "<b>refund"] if number < 60 else ["<b>refund"]
        watching.add(conversation(number, START + number * SECOND, tools, [1.0] * len(tools)), START + number * SECOND)
    stream = next(each.stream for each in watching.statuses() if each.stream.criterion == "behaviour.before")
    found = await one(shown(watching), stream)
    assert "The score of a conversation is 1 with find_order before" in found.words
    assert "of conversations, 100 % before" in found.words
    assert found.count("a", href="/trajectories?service=support&agent=orders") == 1
    assert "find_order before <b>refund" in (await overview(shown(watching))).words
