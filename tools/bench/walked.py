"""The functions and modules that a run of two spans executes with the default criteria, counted with `sys.setprofile`.

    python -m tools.bench.walked [--show]

One run comes before, so that what is loaded and made once is left out. `--show` lists the functions by module.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from types import FrameType

import toolgauge
from tests.walk.shapes import request, run, tool
from tests.walk.support import Walk
from tools.bench.profile_pipeline import feed

_SOURCE = str(Path(toolgauge.__file__).parent) + "/"


def walked() -> dict[str, set[str]]:
    """Return the names of the functions of a run, by module."""
    walk = Walk()
    first, second = (
        request(run(trace=trace), tool("search", {"city": "Lima"}, call="c1", result="found", trace=trace))
        for trace in ("first", "second")
    )
    feed(walk, [first.SerializeToString()])
    found: defaultdict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCE):
            found[code.co_filename.removeprefix(_SOURCE)].add(f"{code.co_firstlineno} {code.co_qualname}")

    sys.setprofile(note)
    try:
        feed(walk, [second.SerializeToString()])
    finally:
        sys.setprofile(None)
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    found = walked()
    if parser.parse_args().show:
        for module, functions in sorted(found.items()):
            print(module, *(f"  {one}" for one in sorted(functions)), sep="\n")
    print(f"{sum(map(len, found.values()))} functions in {len(found)} modules")


if __name__ == "__main__":
    main()
