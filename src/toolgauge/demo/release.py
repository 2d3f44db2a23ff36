"""The second half of the demo: a healthy release, then a worse one, until the drop is detected.

What is shown is what arrived at the destination: the event `toolgauge.regression`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import itertools
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence

import aiohttp
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from toolgauge.demo.drawing import HEALTHY, WORSE, Recording, Release, drawn
from toolgauge.demo.lines import SCREEN_WIDTH, DemoDestination, heading
from toolgauge.report.terminal import PLAIN, Style, counted, printable

_SEED = 8
_HEALTHY = 180
_MOST_WORSE = 150
_PER_SECOND = 30
_LONGEST_WAIT_S = 4.0
_LOOK_S = 0.05
# The agent whose recorded runs are drawn: twice as many that list orders as others.
_DRAWN = (("openinference-langgraph", "sequence", 2), ("openinference-crewai", "retry", 1))
# Each takes three lines of the screen.
_MOST_SHOWN = 3


async def show_release(
    recorded: Sequence[Recording],
    http_port: int,
    arrivals: DemoDestination,
    print_line: Callable[[str], None],
    style: Style = PLAIN,
    web_url: str = "",
) -> Sequence[LogRecord]:
    """Send both releases over HTTP; show the regressions that arrive, and return them. `web_url` is the web view's."""
    for line in (*heading("A release: a healthy agent, then a worse one", style), *_introduction()):
        print_line(line)
    chosen = [
        each
        for each in recorded
        for framework, scenario, times in _DRAWN
        for _ in range(times)
        if (each.framework, each.scenario) == (framework, scenario)
    ]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{http_port}") as http:
        await _send(http, chosen, HEALTHY, _HEALTHY, lambda: False)
        print_line(f"version {HEALTHY.version}: {_HEALTHY} conversations, {_count(arrivals.regressions)}")
        sent = await _send(http, chosen, WORSE, _MOST_WORSE, lambda: bool(arrivals.regressions))
    await _arrival(arrivals)
    regressions = tuple(arrivals.regressions)
    print_line(f"version {WORSE.version}: {sent} conversations, {_count(regressions)}")
    for line in _regression_lines(regressions, style, web_url):
        print_line(line)
    return regressions


def _introduction() -> Iterator[str]:
    yield "A detector needs many conversations: these are drawn with replacement from"
    yield "recorded runs of `shop_agent`. The failures of version 1.1 are made up:"
    yield f"{WORSE.failures_by_tool['list_orders']:.0%} of its calls of `list_orders` fail, {HEALTHY.failures:.0%} of all other calls."
    yield f"One conversation in {WORSE.fault_every} invents a tool, breaks a schema or goes in circles."
    yield "Refunds then name orders that no result has shown."
    yield ""


async def _send(
    http: aiohttp.ClientSession,
    chosen: Sequence[Recording],
    release: Release,
    count: int,
    is_enough: Callable[[], bool],
) -> int:
    """Send so many conversations at a steady pace, or fewer; return how many."""
    due = time.monotonic()
    for number, body in enumerate(itertools.islice(drawn(chosen, release, seed=_SEED, clock=time.time_ns), count)):
        if is_enough():
            return number
        headers = {"Content-Type": "application/x-protobuf"}
        async with http.post("/v1/traces", data=body, headers=headers, raise_for_status=True):
            due += 1 / _PER_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    return count


async def _arrival(arrivals: DemoDestination) -> None:
    until = time.monotonic() + _LONGEST_WAIT_S
    while not arrivals.regressions and time.monotonic() < until:
        await asyncio.sleep(_LOOK_S)


def _count(regressions: Sequence[LogRecord]) -> str:
    return counted(len(regressions), "alarm") if regressions else "no alarm"


def _regression_lines(regressions: Sequence[LogRecord], style: Style, web_url: str) -> Iterator[str]:
    if not regressions:
        return
    yield ""
    yield "As they arrived (events `toolgauge.regression`; a drop looks larger at first):"
    for record in regressions[:_MOST_SHOWN]:
        values = {each.key.removeprefix("toolgauge.regression."): each.value for each in record.attributes}
        sentence = textwrap.wrap(printable(record.body.string_value), SCREEN_WIDTH, max_lines=2, placeholder=" …")
        yield from map(style.bad, sentence)
        traces = values["traces.after"].array_value.values if "traces.after" in values else ()
        for trace_id in (printable(each.string_value) for each in traces[:1]):
            yield f"  worst: {style.link(trace_id, f'{web_url}/trajectories/{trace_id}' if web_url else '')}"
    if len(regressions) > _MOST_SHOWN:
        yield f"and {len(regressions) - _MOST_SHOWN} more, in the summary"
