"""What each default criterion costs: bytecodes and Python calls a span, which neither the machine nor its neighbours change.

    python -m tools.bench.bytecodes FILE... [--requests 100] [--modules]

Feeds the first requests of recordings to pipelines in a leaf set-up, twice to warm up and once counted: with all default criteria,
without each of them and without `watch`, and with none. `--modules` prints instead where the bytecodes with all of them are.
Work in C (regular expressions, hashing, JSON) is not in them; `instructions.py` counts all.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from tests.walk.support import Walk
from toolgauge.config.model import Defaults
from toolgauge.recordings.recorded_requests import find_files, read
from tools.bench.profile_pipeline import feed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", metavar="FILE")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--modules", action="store_true")
    arguments = parser.parse_args()
    recorded = read(find_files(arguments.recordings), lambda _size: None)
    bodies = [one.body for one in islice(recorded, arguments.requests)]
    everything, calls, spans = counted(bodies)
    print(f"{spans} spans, Python {sys.version.split()[0]}")
    if arguments.modules:
        by_module = Counter[str]()
        for code, count in everything.items():
            by_module[code.co_filename.rpartition("/src/")[2]] += count
        for module, count in by_module.most_common(40):
            print(f"{count / spans:8.0f}  {module}")
        return
    print("| without | bytecodes a span | calls a span | saved |\n|---|---|---|---|")
    total = everything.total()
    print(f"| nothing | {total / spans:,.0f} | {calls / spans:.0f} | |")
    names = [name for name in Defaults.model_fields if name not in ("enabled", "scope")]
    switches = {f"`{name}`": f"defaults.{name}=false" for name in names}
    for name, switch in {
        **switches,
        "`watch`": "watch.enabled=false",
        "all criteria": "defaults.enabled=false",
    }.items():
        counts, calls, _ = counted(bodies, switch)
        saved = 1 - counts.total() / total
        print(f"| {name} | {counts.total() / spans:,.0f} | {calls / spans:.0f} | {saved:.1%} |", flush=True)


def counted(bodies: Sequence[bytes], *overrides: str) -> tuple[Counter[CodeType], int, int]:
    """Return the bytecodes by function, the calls of functions, and the spans."""
    for _ in range(2):
        feed(Walk(*overrides), [*bodies])
    counts, calls = Counter[CodeType](), 0

    def entered(frame: FrameType, _event: str, _argument: Any) -> Any:  # noqa: ANN401 (as `sys.settrace` has it)
        nonlocal calls
        calls += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code

        def stepped(_frame: FrameType, event: str, _argument: Any) -> Any:  # noqa: ANN401
            if event == "opcode":
                counts[code] += 1
            return stepped

        return stepped

    walk = Walk(*overrides)
    sys.settrace(entered)
    feed(walk, [*bodies])
    sys.settrace(None)
    return counts, calls, int(walk.metrics.spans.value(("received", "", "")))


if __name__ == "__main__":
    main()
