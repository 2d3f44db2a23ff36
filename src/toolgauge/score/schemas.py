"""What the schemas of the tools on offer say about arguments, as far as the trajectory shows them."""

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.rules import ABSENT, Absent


class Schemas:
    """Schemas by the tool's name; producers write them, so that nothing about their form is sure."""

    __slots__ = ("_by_tool",)

    def __init__(self, trajectory: Trajectory) -> None:
        self._by_tool: dict[str, JsonObject] = {}
        for tool in trajectory.tools_offered or ():
            if tool.parameters is not None:
                self._by_tool.setdefault(tool.name, tool.parameters)

    @property
    def are_none(self) -> bool:
        """Whether no schema was seen."""
        return not self._by_tool

    def required(self, tool: str) -> frozenset[str] | None:
        """Return the arguments that the tool cannot do without; `None` where no list of them was seen."""
        names = self._by_tool.get(tool, {}).get("required")
        return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else None

    def default(self, tool: str, argument: str) -> Json | Absent:
        """Return the declared default of an argument."""
        properties = self._by_tool.get(tool, {}).get("properties")
        declared = properties.get(argument) if isinstance(properties, dict) else None
        return declared.get("default", ABSENT) if isinstance(declared, dict) else ABSENT

    def has_defaults(self, tool: str) -> bool:
        """Tell whether any argument of the tool has a declared default."""
        if tool not in self._by_tool:
            return False
        properties = self._by_tool.get(tool, {}).get("properties")
        declared = properties.values() if isinstance(properties, dict) else ()
        return any(isinstance(argument, dict) and "default" in argument for argument in declared)
