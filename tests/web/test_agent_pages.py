"""The pages of agents, and the changes of an agent in the charts of its streams."""

import json

import msgspec
from aiohttp import ClientSession
from msgspec.structs import replace

from tests.export.scorecards import trajectory
from tests.report.hostile import TEXT
from tests.report.test_catalogue import HOSTILE, changed, run, tool
from tests.watch.support import START, Traffic, result, scored, watcher
from tests.web.streams import Parsed, page, shown
from tests.web.support import serving
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Tokens
from toolgauge.report.catalogue import CatalogueContent
from toolgauge.web.pages import Pages, Shown, agent_id
from toolgauge.web.stream_pages import StreamPages, stream_id
from toolgauge.web.trajectory_pages import AgentPages, TrajectoryPages

TRIAGE = agent_id("support", None, "triage")


async def agents(over: Shown, *path: str) -> Parsed:
    html = await page(AgentPages, over, "agents", *path)
    assert html is not None
    return Parsed(html)


async def test_without_an_agent_the_page_names_that() -> None:
    assert "No agent was seen yet." in (await agents(shown(None))).words


async def test_all_agents_are_listed_with_what_a_success_takes() -> None:
    over = shown(None)
    over.catalogue.add(run(tool(), tokens=Tokens(input=1000, output=200)))
    over.catalogue.add(run(outcome="fail", agent="refunds"))
    found = await agents(over)
    assert "triage support 1 1 1,200 2.0 s not recorded 1 " in found.words
    assert "refunds support 1 0 not recorded none without a fault seen not recorded 0 " in found.words
    assert found.count("a", href=f"/agents/{TRIAGE}") == 1


async def test_an_agent_has_its_values_tools_and_links() -> None:
    over = shown(None)
    over.catalogue.add(run(tool(), version="1.0"))
    over.catalogue.add(run(tool(error="timeout"), at=60, model="large-06", version="1.0"))
    over.catalogue.tools_changed([changed()])
    found = await agents(over, TRIAGE)
    assert "gen_ai.response.model large-05 1 11-14 22:13:20 11-14 22:13:20" in found.words
    assert "gen_ai.response.model large-06 1 11-14 22:14:20 11-14 22:14:20" in found.words
    assert "find_order 2 1 1.0 s 1.0 s breaking at $.parameters.required, 11-14 22:13:25" in found.words
    assert found.count("a", href="/trajectories?service=support&agent=triage&tool=find_order") == 1
    assert found.count("a", href="/trajectories?service=support&agent=triage") == 1
    assert found.count("a", href="/streams?service=support") == 1


async def test_an_agent_that_is_not_known_has_no_page() -> None:
    assert await page(AgentPages, shown(None), "agents", "0" * 16) is None
    assert await page(AgentPages, shown(None), "agents", TRIAGE, "more") is None


async def test_hostile_names_stay_text() -> None:
    over = shown(None)
    over.catalogue.add(run(tool(HOSTILE, agent=HOSTILE), agent=HOSTILE, service=HOSTILE, properties={TEXT: TEXT}))
    assert "\u202e" not in (await agents(over)).text
    found = await agents(over, agent_id(HOSTILE, None, HOSTILE))
    assert (found.count("img"), found.count("script")) == (0, 1)
    assert "<img src=x onerror=1>" in found.text


async def test_the_json_is_what_the_command_reads() -> None:
    over = shown(None)
    over.catalogue.add(run(tool()))
    async with serving(AgentPages(Pages(), over).routes()) as url, ClientSession() as session:
        async with session.get(f"{url}/agents.json") as answer:
            assert answer.content_type == "application/json"
            assert msgspec.convert(json.loads(await answer.read()), CatalogueContent) == over.catalogue.content()
        async with session.get(f"{url}/agents.json/more") as answer:
            assert answer.status == 404


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
    html = await page(StreamPages, over, "streams", stream_id(stream))
    assert html is not None
    assert "gen_ai.response.model large-06, first seen 2023-11-14 22:15:00 UTC" in html
    assert "find_order breaking, first seen 2023-11-14 22:16:40 UTC" in html
    assert "large-05" not in html
    assert f'href="/agents/{agent_id("support", None, "refund-agent")}"' in html


async def test_a_trajectory_leads_to_its_agent() -> None:
    over = shown(None)
    card = Scorecard(trajectory=trajectory(), results=(result(scored(1.0), "pay"),), scored_at_ns=START)
    over.store.add(replace(card, trajectory=replace(card.trajectory, trace_id="f" * 32)))
    html = await page(TrajectoryPages, over, "trajectories", "f" * 32)
    assert html is not None
    assert f'href="/agents/{TRIAGE}"' in html
