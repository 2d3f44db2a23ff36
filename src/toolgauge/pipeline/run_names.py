"""Takes agents and versions out of a trajectory that nearly every run of its service has of its own.

Scores are compared by these names. A name that is made anew for each run, whatever its form, is no name: nothing is learned of it.
"""

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.metrics import MAX_LABEL
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import Trajectory

# So many runs in a row with a name that none of them had before make it no name; so many names are remembered of a service.
_MOST_NEW, _REMEMBERED = 30, 256
_MOST_SERVICES = 1000
_AGENT, _AGENT_VERSION = "gen_ai.agent.name", "gen_ai.agent.version"
# The service and scope of a trajectory, and what is named.
_Key: TypeAlias = tuple[str, str, str]


class _Newest(Struct, gc=False):
    """The newest names, and how many runs in a row had one that was not among them."""

    names: dict[str, None]
    in_a_row: int = 0


class RunNames:
    """Remembers the newest agents and versions of each service."""

    def __init__(self) -> None:
        self._newest: dict[_Key, _Newest] = {}

    def settled(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory without agents and versions of which each run has its own."""
        resource, properties = trajectory.resource, trajectory.properties
        if self._new(trajectory, VERSION, resource.get(VERSION)):
            trajectory = replace(trajectory, resource={**resource, VERSION: ""})
        if self._new(trajectory, _AGENT_VERSION, properties.get(_AGENT_VERSION)):
            kept = {name: value for name, value in properties.items() if name != _AGENT_VERSION}
            trajectory = replace(trajectory, properties=kept)
        new = self._new(trajectory, _AGENT, *trajectory.agents)
        return _without_agents(trajectory, new) if new else trajectory

    def _new(self, trajectory: Trajectory, key: str, *names: str | None) -> frozenset[str]:
        """Return the names that no run before had, where that is so of each run."""
        named = [name[:MAX_LABEL] for name in names if name]
        if not named:
            return frozenset()
        whose = (trajectory.service or "")[:MAX_LABEL], trajectory.scope, key
        newest = self._newest.get(whose) or self._newest.setdefault(whose, _Newest({}))
        new = frozenset(named) - newest.names.keys()
        newest.in_a_row = newest.in_a_row + 1 if new else 0
        for name in named:
            newest.names.pop(name, None)
            newest.names[name] = None
        while len(newest.names) > _REMEMBERED:
            del newest.names[next(iter(newest.names))]
        if len(self._newest) > _MOST_SERVICES:
            del self._newest[next(iter(self._newest))]
        return new if newest.in_a_row > _MOST_NEW else frozenset()


def _without_agents(trajectory: Trajectory, gone: frozenset[str]) -> Trajectory:
    def is_gone(name: str | None) -> bool:
        return name is not None and name[:MAX_LABEL] in gone

    def kept(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([name for name in names if not is_gone(name)])

    calls = [replace(call, agent_path=kept(call.agent_path)) for call in trajectory.calls]
    calls = [replace(call, agent=None) if is_gone(call.agent) else call for call in calls]
    runs = [replace(run, agent=None) if is_gone(run.agent) else run for run in trajectory.runs]
    return replace(trajectory, agents=kept(trajectory.agents), calls=tuple(calls), runs=tuple(runs))
