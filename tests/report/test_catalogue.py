"""The catalogue of agents: what is collected of runs, what is bounded, and how it is written."""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pytest
from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, trajectory, trajectory_result
from tests.report.hostile import TEXT
from toolgauge.export.run_usage import CostSettings
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import fit_label
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import Result, Scorecard
from toolgauge.model.tool_changes import ToolDefinitionChange
from toolgauge.model.trajectory import Message, Tokens, ToolCall
from toolgauge.report.catalogue import (
    Catalogue,
    CatalogueContent,
    CataloguedAgent,
    SeenValue,
    catalogue_lines,
    catalogue_markdown,
)
from toolgauge.settings import Prices

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
MODEL = "gen_ai.response.model"


def catalogue(**metrics: int) -> Catalogue:
    prices = {"large*": Prices(input_per_million=2.0, output_per_million=10.0)}
    return Catalogue(MetricsSettings.model_validate(metrics), CostSettings(prices=prices))


def run(
    *calls: ToolCall,
    outcome: str = "pass",
    at: int = 0,
    agent: str = "triage",
    service: str | None = "support",
    model: str | None = "large-05",
    version: str | None = None,
    tokens: Tokens | None = None,
    results: tuple[Result, ...] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Scorecard:
    judged = passed() if outcome == "pass" else failed()
    made = {} if model is None else {MODEL: model}
    of = replace(
        trajectory(*calls),
        service=service,
        agents=(agent,),
        properties={**made, **(properties or {})},
        resource={} if version is None else {"service.version": version},
        tokens=tokens,
        opened_ns=START + at * SECOND,
    )
    found = (trajectory_result(judged, criterion="default.run_completed"),) if results is None else results
    return Scorecard(trajectory=of, results=found, scored_at_ns=START + (at + 60) * SECOND)


def tool(name: str = "find_order", *, lasts: float = 1.0, error: str = "", agent: str = "triage") -> ToolCall:
    problem = CallError(kind=error, message="") if error else None
    return replace(call(name), agent=agent, error=problem, start_ns=START, end_ns=START + int(lasts * SECOND))


def only(found: Catalogue) -> CataloguedAgent:
    (agent,) = found.content().agents
    return agent


def text(found: Catalogue) -> str:
    return "\n".join(catalogue_lines(found.content()))


def test_runs_of_an_agent_are_added_up_with_what_a_success_takes() -> None:
    found = catalogue()
    tokens = Tokens(input=1000, output=200, unpriced={"large-05": (1000, 200)})
    found.add(run(tool(), tokens=tokens))
    found.add(run(tool(), outcome="fail", tokens=tokens))
    found.add(run(tool(), outcome="fail", tokens=tokens))
    assert text(found).splitlines()[:3] == [
        "triage of support",
        "  3 runs, 1 without a fault seen, 2 failed",
        "  a run without a fault seen takes: tokens 3,600, time 6.0 s, cost 0.012 USD",
    ]


def test_invented_tools_are_no_tools() -> None:
    found = catalogue()
    invented = replace(tool("forecast", error="unknown_tool"), state="rejected")
    unknown = replace(tool("weather"), state="requested_only")
    failing = replace(tool("refund", error="invalid_arguments"), state="rejected")
    offered = tuple(ToolDefinition(name=name) for name in ("find_order", "refund"))
    results = (call_result(failed(), invented, criterion="default.known_tool"),)
    card = run(tool(), invented, unknown, failing, results=results)
    found.add(replace(card, trajectory=replace(card.trajectory, tools_offered=offered)))
    assert [one.tool for one in only(found).tools] == ["find_order", "refund"]
    nothing_offered = catalogue()
    nothing_offered.add(run(tool(), invented, failing))
    assert [one.tool for one in only(nothing_offered).tools] == ["find_order", "refund"]


def test_where_no_run_succeeded_there_is_no_figure() -> None:
    found = catalogue()
    found.add(run(tool(), outcome="fail", tokens=Tokens(input=10, output=2, unpriced={"other": (10, 2)})))
    assert (
        "a run without a fault seen takes: tokens none without a fault seen, time none without a fault seen, cost not recorded"
        in text(found)
    )


def test_values_have_their_first_and_last_sight_and_later_ones_are_changes() -> None:
    found = catalogue()
    for at, model in ((0, "large-05"), (10, "large-05"), (20, "large-06"), (30, "large-05")):
        found.add(run(at=at, model=model, version="1.0"))
    agent = only(found)
    assert [one for one in agent.values if one.property == MODEL] == [
        SeenValue(property=MODEL, value="large-05", runs=3, first_seen_ns=START, last_seen_ns=START + 30 * SECOND),
        SeenValue(
            property=MODEL,
            value="large-06",
            runs=1,
            first_seen_ns=START + 20 * SECOND,
            last_seen_ns=START + 20 * SECOND,
        ),
    ]
    assert list(agent.changes()) == [(START + 20 * SECOND, MODEL, "large-06")]


def test_a_change_belongs_to_the_agent_and_tool_that_ran_whatever_letters_their_names_have() -> None:
    found = catalogue()
    found.add(run(tool("find\norder", agent="tri\tage"), agent="tri\tage", service="sup\x1bport"))
    change = ToolDefinitionChange(
        time_ns=START,
        service=fit_label("sup\x1bport"),
        environment="",
        agent=fit_label("tri\tage"),
        version="",
        tool=fit_label("find\norder"),
        kind="breaking",
        old_hash=None,
        new_hash=None,
        path=None,
    )
    found.tools_changed([change])
    (of_tool,) = only(found).tools
    assert (of_tool.calls, len(of_tool.changes)) == (1, 1)


def test_of_a_prompt_only_its_hash_is_kept() -> None:
    found = catalogue()
    card = run(model=None)
    secret = Message(role="system", text="You are Ann's secret helper.", turn=0)
    found.add(replace(card, trajectory=replace(card.trajectory, messages=(secret,))))
    (value,) = only(found).values
    assert (value.property, len(value.value)) == ("gen_ai.system_instructions", 8)
    assert "secret" not in msgspec.json.encode(found.content()).decode()


def test_tools_have_calls_failures_and_the_times_of_their_newest_calls() -> None:
    found = catalogue()
    for seconds in (1, 2, 3, 4, 100):
        found.add(run(tool(lasts=seconds)))
    found.add(run(tool(lasts=5, error="timeout"), replace(tool("pay"), start_ns=0, end_ns=0)))
    order, pay = only(found).tools
    assert (order.tool, order.calls, order.failures, order.p50, order.p95) == ("find_order", 6, 1, 3.0, 100.0)
    assert (pay.tool, pay.calls, pay.p50, pay.p95) == ("pay", 1, None, None)
    assert "tool find_order: 6 calls, 1 failed, p50 3.0 s, p95 1 min 40 s" in text(found)
    assert "tool pay: 1 call, 0 failed, times not recorded" in text(found)
    for _ in range(200):
        found.add(run(tool(lasts=7)))
    assert only(found).tools[0].p50 == only(found).tools[0].p95 == 7.0


def changed(kind: str = "breaking", **fields: object) -> ToolDefinitionChange:
    values = {
        "time_ns": START + 5 * SECOND,
        "service": "support",
        "environment": "",
        "agent": "triage",
        "version": "",
        "tool": "find_order",
        "kind": kind,
        "old_hash": "a",
        "new_hash": "b",
        "path": "$.parameters.required",
        **fields,
    }
    return ToolDefinitionChange(**values)  # pyright: ignore[reportArgumentType] (fields of a change)


def test_agents_over_the_cap_give_way_and_are_counted() -> None:
    found = catalogue(max_agents=2)
    for name in ("a", "b", "a", "c"):
        found.add(run(agent=name))
    content = found.content()
    assert ([one.agent for one in content.agents], content.left_out) == (["a", "c"], 1)
    assert text(found).endswith("1 more agent left out: see `metrics.max_agents`")


def test_tools_and_values_over_their_caps_give_way_and_are_counted() -> None:
    found = catalogue(max_tools=3)
    for number in range(300):
        found.add(run(tool(f"tool-{number}"), properties={"gen_ai.prompt.name": f"prompt-{number}"}))
    agent = only(found)
    assert [one.tool for one in agent.tools] == ["tool-297", "tool-298", "tool-299"]
    assert len(agent.values) == 200
    # The model, which is in use, stays.
    assert [one.runs for one in agent.values if one.property == MODEL] == [300]
    assert agent.left_out == 297 + 101


HOSTILE = f"{TEXT}\u202e{'x' * 500}"


@pytest.mark.parametrize("write", [catalogue_lines, catalogue_markdown])
def test_hostile_names_are_cut_and_escaped(write: Callable[[CatalogueContent], Iterator[str]]) -> None:
    found = catalogue()
    card = run(tool(HOSTILE, agent=HOSTILE), agent=HOSTILE, service=HOSTILE, properties={HOSTILE: HOSTILE})
    found.add(card)
    found.tools_changed([changed(service="support", path=HOSTILE)])
    shown = "\n".join(write(found.content()))
    assert all(line.isprintable() for line in shown.splitlines())
    assert max(len(line) for line in shown.splitlines()) < 1000
    assert "\u202e" not in shown
    if write is catalogue_markdown:
        assert "<img" not in shown
        assert "@team" not in shown
    # JSON is for programs: it is valid whatever names hold.
    assert msgspec.json.decode(msgspec.json.encode(found.content()), type=CatalogueContent) == found.content()
