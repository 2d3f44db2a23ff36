"""The pages of agents, and the changes of an agent in the charts of its streams."""

from tests.report.hostile import TEXT
from tests.report.test_catalogue import HOSTILE, changed, run, tool
from tests.watch.support import START, Traffic, watcher
from tests.web.streams import Parsed, page, shown
from toolgauge.web.pages import PageContent, agent_id
from toolgauge.web.stream_pages import stream_id, streams
from toolgauge.web.trajectory_pages import agents

TRIAGE = agent_id("support", None, "triage")


async def agents_page(over: PageContent, *path: str) -> Parsed:
    html = await page(agents, over, "agents", *path)
    assert html is not None
    return Parsed(html)


async def test_an_agent_has_its_values_tools_and_links() -> None:
    over = shown(None)
    over.catalogue.add(run(tool(), version="1.0"))
    over.catalogue.add(run(tool(error="timeout"), at=60, model="large-06", version="1.0"))
    over.catalogue.tools_changed([changed()])
    found = await agents_page(over, TRIAGE)
    assert "gen_ai.response.model large-05 1 11-14 22:13:20 11-14 22:13:20" in found.words
    assert "gen_ai.response.model large-06 1 11-14 22:14:20 11-14 22:14:20" in found.words
    assert "find_order 2 1 1.0 s 1.0 s breaking at $.parameters.required, 11-14 22:13:25" in found.words
    assert found.count("a", href="/trajectories?service=support&agent=triage&tool=find_order") == 1
    assert found.count("a", href="/trajectories?service=support&agent=triage") == 1
    assert found.count("a", href="/streams?service=support") == 1


async def test_hostile_names_stay_text() -> None:
    over = shown(None)
    over.catalogue.add(run(tool(HOSTILE, agent=HOSTILE), agent=HOSTILE, service=HOSTILE, properties={TEXT: TEXT}))
    assert "\u202e" not in (await agents_page(over)).text
    found = await agents_page(over, agent_id(HOSTILE, None, HOSTILE))
    assert (found.count("img"), found.count("script")) == (0, 1)
    assert "<img src=x onerror=1>" in found.text


async def test_changes_of_an_agent_are_marked_in_the_chart_of_its_stream() -> None:
    traffic = Traffic(watcher())
    traffic.send(300, every=20)
    over = shown(traffic.watcher)
    stream = next(one.stream for one in traffic.watcher.statuses() if one.stream.tool == "find_order")
    for at, model in ((0, "large-05"), (100, "large-06")):
        over.catalogue.add(run(tool(agent="refund-agent"), at=at, agent="refund-agent", model=model))
    over.catalogue.tools_changed(
        [changed(agent="refund-agent", time_ns=START + 200 * 10**9), changed(agent="refund-agent", tool="other")]
    )
    html = await page(streams, over, "streams", stream_id(stream))
    assert html is not None
    assert "gen_ai.response.model large-06, first seen 2023-11-14 22:15:00 UTC" in html
    assert "find_order breaking, first seen 2023-11-14 22:16:40 UTC" in html
    assert "large-05" not in html
    assert f'href="/agents/{agent_id("support", None, "refund-agent")}"' in html
