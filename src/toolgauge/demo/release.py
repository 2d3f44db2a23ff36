"""The second half of the demo: a healthy release, then a worse one, until the drop is detected.

What is shown is what arrived at the destination: the event `toolgauge.regression`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import aiohttp
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from toolgauge.demo.drawing import HEALTHY, WORSE, Recording, Release, drawn
from toolgauge.demo.lines import DemoDestination, heading
from toolgauge.offline.terminal import PLAIN, Style, printable

_SEED = 8
_HEALTHY = 180
_MOST_WORSE = 150
_PER_SECOND = 30
_LONGEST_WAIT_S = 4.0
_LOOK_S = 0.05
# The agent whose recorded runs are drawn: twice as many that list orders as others.
_DRAWN = (("openinference-langgraph", "sequence", 2), ("openinference-crewai", "retry", 1))
_SHOWN = ("baseline", "current", "observations", "evidence")


async def show_release(
    recorded: Sequence[Recording],
    http_port: int,
    arrivals: DemoDestination,
    print_line: Callable[[str], None],
    style: Style = PLAIN,
) -> None:
    """Send both releases over HTTP and show the regression that arrives."""
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
        print_line(f"version {HEALTHY.version}: {_HEALTHY} conversations, {_count(arrivals)}")
        sent = await _send(http, chosen, WORSE, _MOST_WORSE, lambda: bool(arrivals.regressions))
    await _arrival(arrivals)
    print_line(f"version {WORSE.version}: {sent} conversations, {_count(arrivals)}")
    for line in _regression_lines(arrivals.regressions, style):
        print_line(line)


def _introduction() -> Iterator[str]:
    yield "A detector needs many conversations and the recordings are few: these are drawn with replacement from the"
    yield "recorded runs of `shop_agent`, each with new ids and the present time. The failures of version 1.1 are made up:"
    yield f"{WORSE.failures_by_tool['list_orders']:.0%} of its calls of `list_orders` fail; of all other calls, {HEALTHY.failures:.0%} do."
    yield f"One conversation in {WORSE.fault_every} invents a tool, breaks a schema, goes in circles or makes up an order."
    yield "All else stays as it was recorded, so that refunds then name orders that no result has shown."
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


def _count(arrivals: DemoDestination) -> str:
    return f"{len(arrivals.regressions) or 'no'} regression{'' if len(arrivals.regressions) == 1 else 's'}"


def _regression_lines(regressions: Sequence[LogRecord], style: Style) -> Iterator[str]:
    if not regressions:
        yield "no regression was detected"
        return
    yield from heading("The regression, as it arrived (the event `toolgauge.regression`)", style)
    for record in regressions:
        yield style.bad(printable(record.body.string_value))
        values = {each.key.removeprefix("toolgauge.regression."): each.value for each in record.attributes}
        shown = (
            f"{name} {values[name].double_value or values[name].int_value:.3g}" for name in _SHOWN if name in values
        )
        yield f"  {', '.join(shown)}"
        traces = (
            [each.string_value for each in values["traces.after"].array_value.values]
            if "traces.after" in values
            else []
        )
        yield f"  the worst traces since then: {', '.join(map(printable, traces[:2]))}"
    yield "Right after an alarm a drop looks larger than it is: it is counted from where scores look worst."
