"""Recorded runs whose upper spans are traced elsewhere, or filtered out on the way, are whole all the same."""

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from tests.assemble.support import SECOND_NS, Read
from tests.property.test_half_runs import recorded
from tests.walk.support import CORPUS
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import ConversationSeen, Reading
from toolgauge.model.records import PackedHead
from toolgauge.model.trajectory import Trajectory
from toolgauge.selfmetrics import SelfMetrics

_Found: TypeAlias = list[Reading | PackedHead]
HOUR_NS = 3600 * SECOND_NS
FOLDERS = sorted(place.name for place in CORPUS.iterdir() if place.is_dir())
# Models and tools without an agent, below a span of another kind: whether that has ended, nothing shows without it.
WITHOUT_AGENTS = {"openai-v2": 8}


def filtered(found: _Found) -> _Found:
    """Leave what a Collector passes on that drops all but the spans of agents, models and tools."""
    return [
        one
        for one in found
        if isinstance(one, Reading) and any(not isinstance(seen, ConversationSeen) for seen in one.observations)
    ]


def without_flags(found: _Found) -> _Found:
    return [replace(one, parent_is_remote=None) if isinstance(one, Reading) else one for one in found]


ARRIVING: dict[str, Callable[[_Found], _Found]] = {
    "as recorded": list,
    "without flags": without_flags,
    "filtered": filtered,
    "filtered, without flags": lambda found: filtered(without_flags(found)),
}


def closed(folder: str, arriving: str, *, at_shutdown: bool) -> list[Trajectory]:
    box = Assembler(AssembleSettings(), SelfMetrics(MetricRegistry()), Read(), conversations=False)
    for spans in recorded(folder).values():
        for one in ARRIVING[arriving](spans):
            if isinstance(one, Reading):
                box.add(one, 0)
            else:
                box.add_heads([one], 0)
    return [*(box.close_all(1) if at_shutdown else box.closed(HOUR_NS))]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("arriving", ARRIVING)
def test_nothing_is_half_a_run_for_want_of_spans_that_never_come(folder: str, arriving: str):
    found = closed(folder, arriving, at_shutdown=False)
    assert found
    assert Counter(one.closed_because for one in found if one.incomplete) == {}


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("arriving", ARRIVING)
def test_runs_of_agents_that_have_ended_are_whole_at_shutdown(folder: str, arriving: str):
    found = closed(folder, arriving, at_shutdown=True)
    assert [one.trace_id for one in found if one.incomplete and one.has_agent_run] == []
    left = WITHOUT_AGENTS.get(folder, 0) if arriving.startswith("filtered") else 0
    assert len([one for one in found if one.incomplete]) == left
