"""Takes agents and versions out of a trajectory that nearly every run of its service has of its own.

Scores are compared by these names. A name that is made anew for each run, whatever its form, is no name: nothing is learned of it.
"""

from collections.abc import Mapping
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

    def are_new(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Add the names of a run; return those that were not known."""
        new = tuple([name for name in names if name not in self.names])
        for name in names:
            self.names.pop(name, None)
            self.names[name] = None
        for _ in range(len(self.names) - _REMEMBERED):
            del self.names[next(iter(self.names))]
        self.in_a_row = self.in_a_row + 1 if new else 0
        return new


class RunNames:
    """Remembers the newest agents and versions of each service."""

    def __init__(self) -> None:
        self._newest: dict[_Key, _Newest] = {}

    def settled(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory without agents and versions of which each run has its own."""
        if gone := self._gone(trajectory, _AGENT, trajectory.agents):
            trajectory = replace(
                trajectory,
                agents=tuple([name for name in trajectory.agents if name not in gone]),
                calls=tuple(
                    [
                        replace(
                            call,
                            agent=None if call.agent in gone else call.agent,
                            agent_path=tuple([name for name in call.agent_path if name not in gone]),
                        )
                        for call in trajectory.calls
                    ]
                ),
                runs=tuple([replace(run, agent=None) if run.agent in gone else run for run in trajectory.runs]),
            )
        if self._gone(trajectory, VERSION, _of(trajectory.resource, VERSION)):
            trajectory = replace(trajectory, resource=_without(trajectory.resource, VERSION))
        if self._gone(trajectory, _AGENT_VERSION, _of(trajectory.properties, _AGENT_VERSION)):
            trajectory = replace(trajectory, properties=_without(trajectory.properties, _AGENT_VERSION))
        return trajectory

    def _gone(self, trajectory: Trajectory, key: str, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            return ()
        whose = (trajectory.service or "")[:MAX_LABEL], trajectory.scope, key
        newest = self._newest.get(whose)
        if newest is None:
            if len(self._newest) >= _MOST_SERVICES:
                del self._newest[next(iter(self._newest))]
            newest = self._newest[whose] = _Newest({})
        new = newest.are_new(tuple([name[:MAX_LABEL] for name in names]))
        if newest.in_a_row <= _MOST_NEW:
            return ()
        return tuple([name for name in names if name[:MAX_LABEL] in new])


def _of(values: Mapping[str, str], key: str) -> tuple[str, ...]:
    return (values[key],) if values.get(key) else ()


def _without(values: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if name != key}
