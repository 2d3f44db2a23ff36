"""Runs of pytest inside of pytest: each finds the global providers of OpenTelemetry as a process finds them at its start."""

import json
import textwrap
from collections.abc import Callable
from typing import TypeAlias

import pytest
from opentelemetry import trace
from opentelemetry._logs import _internal as logs
from opentelemetry.util._once import Once

from toolgauge import plugins
from toolgauge.pytest_plugin import hooks, scored

# Imported here once, and not by each run again, which forgets what it has imported itself.
IMPORTED = (
    hooks,
    scored,
    *plugins.dialects(),
    *map(plugins.evaluator, plugins.names(plugins.EVALUATORS)),
)

Run: TypeAlias = Callable[..., pytest.RunResult]

AGENT = """
    import json

    from opentelemetry import trace


    def call(tracer, name, arguments=None, result=None):
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        if arguments is not None:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(arguments)
        if result is not None:
            attributes["gen_ai.tool.call.result"] = json.dumps(result)
        with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes):
            pass


    def run(*calls, provider=None, root=None):
        tracer = (provider or trace.get_tracer_provider()).get_tracer("shop")
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop", **(root or {})}
        with tracer.start_as_current_span("invoke_agent shop", attributes=attributes):
            for name, arguments in calls:
                call(tracer, name, arguments)


    FOUND = ("find_order", {"order_id": "A-17"})
    REFUNDED = ("refund_order", {"order_id": "A-17", "amount": 20})
    REFUNDED_TOO_MUCH = ("refund_order", {"order_id": "A-17", "amount": 25})
    DELETED = ("delete_order", {"order_id": "A-17"})
"""
CRITERIA = """
    criteria:
      - name: refund-order
        evaluator: tool_call_args
        tools: [refund_order]
        expected: [{name: refund_order, args: {order_id: A-17, amount: 20}}]
      - name: right-calls
        evaluator: tool_call_f1
        expected:
          - {name: find_order, args: {order_id: A-17}}
          - {name: refund_order, args: {order_id: A-17, amount: 20}}
"""
CASE = {"case": "A-17", "expected": [{"name": "refund_order", "args": {"order_id": "A-17", "amount": 20}}]}


@pytest.fixture(autouse=True)
def no_global_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME", "OTEL_PYTHON_TRACER_PROVIDER", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(logs, "_LOGGER_PROVIDER", None)
    monkeypatch.setattr(logs, "_LOGGER_PROVIDER_SET_ONCE", Once())


@pytest.fixture
def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Write a file of tests, with an agent and criteria beside it, and run it in this process."""
    # Plug-ins of this environment are looked at where they matter, in processes of their own.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(tests: str, *options: str, **files: str) -> pytest.RunResult:
        write_tests(pytester, tests, **files)
        return pytester.runpytest_inprocess("-p", "toolgauge.pytest_plugin.hooks", *options)

    return run


def one_test(body: str, *criteria: str, mark: str = '"criteria.yaml"') -> str:
    """Write a test that runs these lines, and asserts these criteria: all of them where none is named."""
    asserted = f"scored.assert_passes({', '.join(map(repr, criteria))})"
    lines = textwrap.indent(f"{textwrap.dedent(body).strip()}\n{asserted}", "    ")
    return f"@pytest.mark.toolgauge({mark})\ndef test_refund(scored):\n{lines}\n"


def write_tests(pytester: pytest.Pytester, tests: str, **files: str) -> None:
    """Write `test_shop.py`; a file's name has two underscores for its dot."""
    written = {"agent__py": AGENT, "criteria__yaml": CRITERIA, "cases__jsonl": json.dumps(CASE), **files}
    written["test_shop__py"] = "from agent import *\nimport pytest\n" + textwrap.dedent(tests)
    for name, text in written.items():
        (pytester.path / name.replace("__", ".")).write_text(textwrap.dedent(text))
