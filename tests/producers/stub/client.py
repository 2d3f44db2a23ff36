"""What every capture in Python needs: begins and ends scenarios at the stub, runs their tools there, exports to it.

It stands beside the packages of a producer, in their environment, and needs OpenTelemetry's SDK and OTLP/HTTP exporter alone.
"""

import asyncio
import builtins
import inspect
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Literal

from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from steps import STUB, end, post

SCENARIOS = (
    *("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "retry", "nested", "multi_turn"),
    *("unknown_tool", "bad_args", "bad_json", "no_tool", "stream", "stream_parallel"),
)


def without(*names: str) -> tuple[str, ...]:
    """Return all scenarios but these; `stream` stands for both that stream."""
    return tuple(name for name in SCENARIOS if name not in names and name.partition("_")[0] not in names)


def run_tool(name: str, given: object) -> Any:
    """Run a tool of the scenario; its error is raised with its own class."""
    answer = post(f"tools/{name}", given)
    if error := answer.get("error"):
        raise getattr(builtins, error["type"], RuntimeError)(error["message"])
    return answer["result"]


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> Any:
    """Weather of a city."""
    return run_tool("get_weather", {"city": city, "unit": unit})


def find_customer(email: str) -> Any:
    """Find a customer by e-mail."""
    return run_tool("find_customer", {"email": email})


def list_orders(customer_id: str) -> Any:
    """Orders of a customer."""
    return run_tool("list_orders", {"customer_id": customer_id})


def refund_order(order_id: str, amount: float, reason: str) -> Any:
    """Refund an order."""
    return run_tool("refund_order", {"order_id": order_id, "amount": amount, "reason": reason})


def delete_file(path: str) -> Any:
    """Delete a file."""
    return run_tool("delete_file", {"path": path})


def fetch_report(report_id: str) -> Any:
    """Fetch a report."""
    return run_tool("fetch_report", {"report_id": report_id})


def search_flights(origin: str, destination: str) -> Any:
    """Search flights."""
    return run_tool("search_flights", {"origin": origin, "destination": destination})


def create_event(
    title: str, when: dict[str, Any], attendees: list[dict[str, str]], notes: str = "", private: bool = False
) -> Any:
    """Create a calendar event."""
    given = {"title": title, "when": when, "attendees": attendees, "notes": notes, "private": private}
    return run_tool("create_event", given)


TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (
        *(get_weather, find_customer, list_orders, refund_order, delete_file, fetch_report),
        *(search_flights, create_event),
    )
}


def tools_of(scenario: dict[str, Any], *without: str) -> list[Callable[..., Any]]:
    """Return the functions that the scenario offers."""
    return [TOOLS[tool["name"]] for tool in scenario["tools"] if tool["name"] not in without]


def definitions_of(scenario: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tools on offer as chat completions take them."""
    return [{"type": "function", "function": tool} for tool in scenario["tools"]]


def traced(service: str) -> TracerProvider:
    """Export all spans to the stub."""
    provider = TracerProvider(resource=Resource({"service.name": service}))
    exporter = OTLPSpanExporter(endpoint=f"{STUB}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=60_000))
    trace.set_tracer_provider(provider)
    return provider


def logged(service: str) -> LoggerProvider:
    """Export all log records to the stub."""
    provider = LoggerProvider(resource=Resource({"service.name": service}))
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{STUB}/v1/logs")))
    _logs.set_logger_provider(provider)
    return provider


def capture(
    producer: str,
    play: Callable[[dict[str, Any], str, int, dict[str, Any]], Any],
    *,
    packages: tuple[str, ...],
    convention: str,
    flush: Callable[[], object] | None = None,
    scenarios: tuple[str, ...] = SCENARIOS,
    **more: Any,
) -> None:
    """Play scenarios one after another, those of the command line or these, and flush the exporters of the process after each."""
    versions = {name: version(name) for name in packages}
    for name in sys.argv[1:] or scenarios:
        about = {"producer": producer, "scenario": name, "versions": versions, "convention": convention, **more}
        scenario = post("begin", about)
        state: dict[str, Any] = {}
        for number, run in enumerate(scenario["runs"]):
            post("run")
            time.sleep(0.02)
            try:
                played = play(scenario, run["text"], number, state)
                if inspect.isawaitable(played):
                    asyncio.run(_awaited(played))
            except Exception as error:
                post("failed", f"{type(error).__name__}: {error}")
                print("FAILED", name, type(error).__name__, str(error)[:300])
            time.sleep(0.06)
        for exported in (trace.get_tracer_provider(), _logs.get_logger_provider()):
            getattr(exported, "force_flush", bool)()
        if flush is not None:
            flush()
        end(name)


async def _awaited(played: Any) -> None:
    await played
