"""What may be chosen about emission, with the values of the default configuration."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

EventsMode: TypeAlias = Literal["scored", "failed", "all"]
AnnotateMode: TypeAlias = Literal["both", "hold", "scorecard", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitSettings:
    """`events`: which results become log records. `annotate`: how scores reach the trace. The rest caps labels."""

    events: EventsMode = "scored"
    annotate: AnnotateMode = "both"
    show_values: bool = False
    max_services: int = 50
    max_agents: int = 50
    max_tools: int = 200
    max_label_sets: int = 2000
