"""toolgauge scores the tool calls of AI agents inside an OpenTelemetry pipeline.

The names in `__all__` are what programs may rely on. Each is loaded when it is first asked for: every import of any of our
modules, that of the command too, comes past here.

PYTEST_DONT_REWRITE: pytest would warn where this is imported before it, as in programs that call `pytest.main()`.
"""

# pyright: reportUnsupportedDunderAll=false
# The names are in the stub, for type checkers; a test compares the two.

from importlib import import_module

_MODULES = {
    "ConfigError": "toolgauge.model.errors",
    "Criterion": "toolgauge.api.written_criterion",
    "CriterionResult": "toolgauge.api.evaluation",
    "EvaluatedTrajectory": "toolgauge.api.evaluation",
    "Evaluation": "toolgauge.api.evaluation",
    "Expected": "toolgauge.model.expected",
    "NotEvaluated": "toolgauge.model.outcomes",
    "RecordingError": "toolgauge.model.errors",
    "Scored": "toolgauge.model.outcomes",
    "ToolCall": "toolgauge.model.trajectory",
    "ToolgaugeError": "toolgauge.model.errors",
    "Trajectory": "toolgauge.model.trajectory",
    "check": "toolgauge.api.check",
    "evaluators": "toolgauge",
    "mark": "toolgauge.api.mark",
}

# Earlier names.
_RENAMED = {"evaluate": "check"}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Load one of the names; Python asks once each."""
    asked, name = name, _RENAMED.get(name, name)
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module `toolgauge` has no attribute `{asked}`")
    # A package of ours becomes an attribute when it is imported.
    value: object = (
        import_module(f"toolgauge.{name}") if module == "toolgauge" else getattr(import_module(module), name)
    )
    globals()[asked] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
