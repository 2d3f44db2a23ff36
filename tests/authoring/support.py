"""Runs of a shop, learned from as recorded traffic is."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tests.score.support import tool_call, trajectory, user
from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.learner import Learner
from toolgauge.config.parse import parse_yaml
from toolgauge.config.problems import plain
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.trajectory import Message, ToolCall, Trajectory

REQUIREMENTS = Requirements(runs=20, tolerance=0.01, most_alarms=0.05)


def run(
    number: int,
    *calls: ToolCall,
    service: str | None = "shop",
    agents: tuple[str, ...] = ("clerk",),
    offered: Sequence[ToolDefinition] | None = None,
    messages: tuple[Message, ...] = (),
) -> Trajectory:
    made = trajectory(
        *calls,
        service=service,
        agents=agents,
        scope="conversation",
        conversation_id=f"c{number}",
        trace_id=f"{number:032x}",
        writing_tools=[call.name for call in calls if not call.name.startswith("find")],
        messages=messages,
    )
    return replace(made, tools_offered=None if offered is None else tuple(offered))


def call(
    name: str, args: JsonObject | None = None, result: Json = None, *, error: bool = False, agent: str | None = None
) -> ToolCall:
    return tool_call(
        name,
        {} if args is None else args,
        result=Recorded(result),
        error=CallError(kind="Timeout", message="") if error else None,
        agent=agent,
    )


def refund(number: int, **more: Json) -> Trajectory:
    """A run as it usually is: an order is found, and refunded."""
    order = f"W{1000000 + number}"
    reason = "damaged" if number % 2 else "too late"
    return run(
        number,
        call("find_order", {"order_id": order}, {"id": order, "total": 10.0 + number}),
        call(
            "refund",
            {
                "order_id": order,
                "amount": 10.0 + number,
                "cabin": "economy" if number % 3 else "business",
                "reason": reason,
                **more,
            },
        ),
        messages=(user(f"Refund {order}", 0),),
    )


def learned_text(trajectories: Iterable[Trajectory], requirements: Requirements = REQUIREMENTS) -> str:
    learner = Learner()
    for one in trajectories:
        learner.add(one)
    return learner.result(requirements).text


def learned(trajectories: Iterable[Trajectory], requirements: Requirements = REQUIREMENTS) -> dict[str, dict[str, Any]]:
    """Return the criteria by the last part of their names."""
    document: Any = plain(parse_yaml(learned_text(trajectories, requirements), "learned", {}))
    return {criterion["name"].rsplit(".", 1)[1]: criterion for criterion in document["criteria"]}


def contracts(
    trajectories: Iterable[Trajectory], requirements: Requirements = REQUIREMENTS
) -> dict[str, dict[str, Any]]:
    """Return the contracts by the names of tools."""
    document: Any = plain(parse_yaml(learned_text(trajectories, requirements), "learned", {}))
    return document.get("tools", {})
