"""Our evaluators, each in a module of its own, which is loaded when its class is first asked for here."""

# pyright: reportUnsupportedDunderAll=false
# The names are in the stub, for type checkers; a test compares the two.

from importlib import import_module

_MODULES = {
    "ArgumentsSchema": "toolgauge.evaluators.arguments_schema",
    "Budget": "toolgauge.evaluators.run_checks",
    "Coverage": "toolgauge.evaluators.run_checks",
    "DataFlow": "toolgauge.evaluators.data_flow",
    "ErrorHandling": "toolgauge.evaluators.error_handling",
    "Faithfulness": "toolgauge.evaluators.faithfulness",
    "GroundedArguments": "toolgauge.evaluators.grounded_arguments",
    "JsonSimilarity": "toolgauge.evaluators.json_similarity",
    "KnownTool": "toolgauge.evaluators.known_tool",
    "OrderRules": "toolgauge.evaluators.order_rules",
    "OutputJudge": "toolgauge.evaluators.output_judge",
    "Policy": "toolgauge.evaluators.policy",
    "RepeatedCalls": "toolgauge.evaluators.repeated_calls",
    "RunCompleted": "toolgauge.evaluators.run_checks",
    "ToolCallAccuracy": "toolgauge.evaluators.tool_call_accuracy",
    "ToolCallArgs": "toolgauge.evaluators.tool_call_args",
    "ToolCallCount": "toolgauge.evaluators.tool_call_count",
    "ToolCallF1": "toolgauge.evaluators.tool_call_f1",
    "ToolCallOrder": "toolgauge.evaluators.tool_call_order",
    "ToolCallOutput": "toolgauge.evaluators.tool_call_output",
    "ToolParameterAccuracy": "toolgauge.evaluators.tool_parameter_accuracy",
    "ToolParameterMatch": "toolgauge.evaluators.tool_parameter_match",
    "ToolSelectionAccuracy": "toolgauge.evaluators.tool_selection_accuracy",
    "ToolSuccess": "toolgauge.evaluators.tool_success",
    "ToolTrajectory": "toolgauge.evaluators.tool_trajectory",
    "ToolUse": "toolgauge.evaluators.run_checks",
    "TrajectoryJudge": "toolgauge.evaluators.trajectory_judge",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Load one of the classes; Python asks once each."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module `toolgauge.evaluators` has no attribute `{name}`")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
