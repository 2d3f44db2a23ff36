"""Changes of the tools that agents are offered."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

# Breaking: arguments that were valid before no longer are. Additive: all that were valid still are. Wording: descriptions alone.
# Changed: the schema differs at a place that is not compared in detail.
ToolChangeKind: TypeAlias = Literal["added", "removed", "breaking", "changed", "additive", "wording"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinitionChange:
    """A tool that an agent is offered has changed between two runs.

    `service`, `environment`, `agent` and `version` are empty where they were not recorded; the version is that of the agent, else
    of its service. `old_hash` is `None` for an added tool, `new_hash` for a removed one. `path` names the first place in the
    definition that changed, `None` for added and removed tools.
    """

    time_ns: int
    service: str
    environment: str
    agent: str
    version: str
    tool: str
    kind: ToolChangeKind
    old_hash: str | None
    new_hash: str | None
    path: str | None
