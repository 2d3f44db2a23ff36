"""Changes of the tools that agents are offered, from run to run."""

import pytest
from msgspec.structs import replace

from tests.export.scorecards import trajectory
from tests.watch.support import START, offered, watcher
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.tool_changes import ToolDefinitionChange
from toolgauge.settings import HOUR
from toolgauge.watch import tool_contracts
from toolgauge.watch.offers import Offer, contracts, offers
from toolgauge.watch.tool_contracts import RUNS_TO_DECIDE, ToolContracts


def tool(name: str = "find_order", *required: str, description: str | None = None, **limits: int) -> ToolDefinition:
    schema: JsonObject = {"properties": {"id": {"type": "string", **limits}}, "required": [*required]}
    return ToolDefinition(name=name, description=description, parameters=schema)


class Runs:
    """Runs of one agent, a second apart."""

    def __init__(self) -> None:
        self.contracts = ToolContracts()
        self.capped = 0
        self.now_ns = START

    def add(self, *tools: ToolDefinition, version: str = "1", times: int = 1, conversation: str = "") -> list[str]:
        """Return the changes that these runs show."""
        for _ in range(times):
            self.now_ns += 1_000_000_000
            offer = Offer("shop", "", "orders", version, conversation, True, contracts(tools))
            self.contracts.add(offer, self.now_ns)
        return [f"{each.kind} {each.tool}" for each in self.changes()]

    def changes(self) -> list[ToolDefinitionChange]:
        changes, capped = self.contracts.take()
        self.capped += capped
        return changes


def test_a_change_names_hashes_place_and_version() -> None:
    runs = Runs()
    old, new = tool(description="Find."), tool("find_order", "id", description="Seek.")
    runs.add(old)
    runs.contracts.add(Offer("shop", "", "orders", "2", "", True, contracts((new,))), START)
    (change,) = runs.changes()
    (before,), (after,) = contracts((old,)), contracts((new,))
    assert (change.time_ns, change.service, change.agent, change.version) == (START, "shop", "orders", "2")
    assert (change.tool, change.kind, change.path) == ("find_order", "breaking", "$.parameters.required.id")
    assert (change.old_hash, change.new_hash) == (before.schema, after.schema)
    (reworded,) = contracts((tool("find_order", "id", description="Find all."),))
    runs.contracts.add(Offer("shop", "", "orders", "2", "", True, (reworded,)), START)
    (change,) = runs.changes()
    assert (change.kind, change.old_hash, change.new_hash) == ("wording", after.words, reworded.words)


def test_each_definition_is_reported_once_however_instances_and_versions_alternate() -> None:
    runs = Runs()
    runs.add(tool(), times=3)
    assert runs.add(tool("find_order", "id"), version="2") == ["breaking find_order"]
    for _ in range(3):
        assert runs.add(tool()) == []
        assert runs.add(tool("find_order", "id"), version="2") == []
        assert runs.add(tool("find_order", "id")) == []
        assert runs.add(tool(), version="3") == []


def test_a_tool_is_removed_after_many_runs_without_it() -> None:
    runs = Runs()
    runs.add(tool(), tool("refund"), times=30)
    assert runs.add(tool(), times=RUNS_TO_DECIDE - 1) == []
    assert runs.add(tool()) == ["removed refund"]
    assert runs.add(tool(), times=100) == []


def test_runs_of_one_conversation_and_those_that_may_have_had_more_tools_are_not_counted() -> None:
    runs = Runs()
    runs.add(tool(), tool("refund"), times=30)
    assert runs.add(tool(), times=100, conversation="c") == []
    for _ in range(100):
        runs.contracts.add(Offer("shop", "", "orders", "1", "", False, contracts((tool(),))), START)
    assert runs.changes() == []


def test_a_tool_is_added_with_a_new_version_or_when_all_runs_have_it_after_many_without() -> None:
    runs = Runs()
    runs.add(tool(), times=RUNS_TO_DECIDE)
    assert runs.add(tool(), tool("refund"), version="2") == ["added refund"]
    assert runs.add(tool(), tool("cancel"), times=RUNS_TO_DECIDE - 1) == []
    assert runs.add(tool(), tool("cancel")) == ["added cancel"]


def test_what_a_producer_leaves_out_is_filled_in_from_the_definition_before() -> None:
    runs = Runs()
    runs.add(tool(description="Find."))
    assert runs.add(ToolDefinition(name="find_order")) == []
    assert runs.add(tool("find_order", "id")) == ["breaking find_order"]
    assert runs.add(ToolDefinition(name="find_order"), version="2") == []
    assert runs.add(tool("find_order", "id", description="Seek."), version="2") == ["wording find_order"]


def test_a_tool_that_every_user_has_in_another_form_is_counted_as_capped() -> None:
    runs = Runs()
    found = [change for limit in range(1, 50) for change in runs.add(tool(maxLength=limit))]
    assert len(found) == 5
    assert runs.capped == 43
    runs.now_ns += HOUR
    assert runs.add(tool(maxLength=60)) == ["changed find_order"]


def test_tools_over_the_cap_of_a_service_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_contracts, "MAX_TOOLS_OF_SERVICE", 3)
    runs = Runs()
    runs.add(*[tool(f"t{number}") for number in range(5)])
    assert runs.capped == 2
    runs.contracts.add(Offer("shop", "", "other", "1", "", True, contracts((tool(),))), START)
    runs.contracts.add(Offer("office", "", "other", "1", "", True, contracts((tool(),))), START)
    runs.changes()
    assert runs.capped == 3


def test_a_definition_that_is_too_large_is_counted_and_not_compared() -> None:
    large = ToolDefinition(name="t", parameters={"enum": [f"{number * 7919}" for number in range(30_000)]})
    runs = Runs()
    runs.add(tool("t"))
    assert runs.add(large) == []
    assert runs.capped == 1
    assert runs.add(tool("t", "id")) == ["breaking t"]


# -- in the watcher


def test_what_is_known_of_tools_survives_a_restart() -> None:
    first = watcher()
    changes: list[ToolDefinitionChange] = []
    first.observe(offered(1, tool()))
    rows, _ = first.changes()
    assert any(row.startswith(b"o") for row in rows)
    second = watcher()
    second.on_tool_changes = lambda found, _capped: changes.extend(found)
    assert second.restore(rows) == 0
    second.observe(offered(2, tool("find_order", "id"), version="1.1"))
    second.tick(START)
    assert [(change.kind, change.service, change.version) for change in changes] == [("breaking", "support", "1.1")]


def test_only_traces_with_offers_of_their_own_are_compared() -> None:
    card = offered(1, tool())
    assert [offer.agent for offer in offers(card.trajectory)] == ["orders"]
    assert offers(replace(card.trajectory, scope="conversation")) == []
    assert offers(trajectory()) == []
    (run,) = card.trajectory.runs
    assert offers(replace(card.trajectory, runs=(replace(run, offer_from="service"),))) == []
