"""The exceptions with which frameworks stop a tool call until a person decides, or until its result comes from outside."""

from typing import Final

# LangGraph, Pydantic AI, Genkit, Strands, Agent Framework, LlamaIndex. Their classes, without the module.
PAUSING_EXCEPTIONS: Final = frozenset(
    (
        *("GraphInterrupt", "NodeInterrupt", "GraphDrained"),
        *("ApprovalRequired", "CallDeferred"),
        "ToolInterruptError",
        *("InterruptException", "InterruptError"),
        "UserInputRequiredException",
        "WaitingForEvent",
    )
)
