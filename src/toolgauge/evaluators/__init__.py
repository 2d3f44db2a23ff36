"""Our evaluators; a module is loaded when one of its classes is first asked for here."""

# pyright: reportUnsupportedDunderAll=false
# The names are in the stub, for type checkers; a test compares the two.

from importlib import import_module

_CLASSES = {
    "answer_checks": ("GroundedAnswer", "HonestAnswer"),
    "arguments_schema": ("ArgumentsSchema",),
    "data_flow": ("DataFlow",),
    "error_handling": ("ErrorHandling",),
    "expected_arguments": ("ToolCallAccuracy", "ToolCallArgs", "ToolParameterMatch", "ToolTrajectory"),
    "expected_calls": ("ToolCallCount", "ToolCallF1", "ToolCallOrder"),
    "grounded_arguments": ("GroundedArguments",),
    "llm_judges": ("Faithfulness", "OutputJudge", "ToolParameterAccuracy", "ToolSelectionAccuracy", "TrajectoryJudge"),
    "order_rules": ("OrderRules",),
    "outputs": ("JsonSimilarity", "ToolCallOutput"),
    "policy": ("Policy",),
    "repeated_calls": ("OneEffect", "RepeatedCalls"),
    "run_checks": ("Budget", "Coverage", "RunCompleted", "ToolUse"),
    "tool_checks": ("KnownTool", "ToolContract", "ToolSuccess"),
}
_MODULES = {name: module for module, names in _CLASSES.items() for name in names}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Load one of the classes; Python asks once each."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module `toolgauge.evaluators` has no attribute `{name}`")
    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
