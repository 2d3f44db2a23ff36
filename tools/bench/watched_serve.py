"""`toolgauge serve` with a watch on its event loop; run by `tools.bench.loop_lag`, not by hand.

A task that sleeps for 5 ms again and again tells by how much it overslept, and how much of that this thread was at
work: on a busy machine the rest is somebody else's. A thread looks at what the loop is doing whenever it is late.
"""

import asyncio
import gc
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from toolgauge.cli.main import main
from toolgauge.service.service import Service

_EVERY_S = 0.005
_LATE_S = 0.015
_SAMPLE_EVERY_S = 0.002
_FRAMES = 14
_HERE = ("/toolgauge/", "/score/peers/")


class Watch:
    """What was seen of one event loop."""

    def __init__(self) -> None:
        self.wall_ms: list[float] = []
        self.own_ms: list[float] = []
        self.collections: list[tuple[int, float]] = []
        self.seen: Counter[str] = Counter()
        # By the stall they were part of: how long it took, and where the loop was seen.
        self.stalls: list[tuple[float, float, list[str]]] = []
        self._during: list[str] = []
        self._beat = time.perf_counter()
        self._began = 0.0

    async def tick(self) -> None:
        """Run for ever on the loop that is watched."""
        while True:
            began, worked = time.perf_counter(), time.thread_time()
            self._beat = began
            await asyncio.sleep(_EVERY_S)
            late = (time.perf_counter() - began - _EVERY_S) * 1000
            own = (time.thread_time() - worked) * 1000
            self.wall_ms.append(late)
            self.own_ms.append(min(late, own))
            during, self._during = self._during, []
            if late > _LATE_S * 1000:
                self.stalls.append((late, own, during))

    def sample(self, loop_thread: int) -> None:
        """Look again and again at what the loop's thread does; runs in a thread of its own."""
        while True:
            time.sleep(_SAMPLE_EVERY_S)
            if time.perf_counter() - self._beat < _EVERY_S + _LATE_S:
                continue
            frame = sys._current_frames().get(loop_thread)  # pyright: ignore[reportPrivateUsage] - the only way to look into another thread
            stack = _told(frame)
            self.seen[stack] += 1
            self._during.append(stack)

    def collecting(self, phase: str, info: Mapping[str, int]) -> None:
        """Take the time of collections of garbage."""
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.collections.append((info["generation"], (time.perf_counter() - self._began) * 1000))

    def written(self) -> str:
        """Put it into JSON."""
        longest = sorted(self.stalls, key=lambda stall: -stall[1])[:12]
        return json.dumps(
            {
                "wall_ms": self.wall_ms,
                "own_ms": self.own_ms,
                "collections": self.collections,
                "seen": self.seen.most_common(25),
                "stalls": [(late, own, Counter(during).most_common(3)) for late, own, during in longest],
            }
        )


def _told(frame: FrameType | None) -> str:
    lines: list[str] = []
    while frame is not None and len(lines) < _FRAMES:
        name = frame.f_code.co_filename
        if any(part in name for part in _HERE) or not lines:
            lines.append(f"{Path(name).name}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(lines)


def watch_all(watch: Watch, *, samples: bool) -> None:
    """Have every service that starts be watched."""
    original = Service.start
    tasks: set[asyncio.Task[None]] = set()

    async def start(self: Service) -> None:
        await original(self)
        tasks.add(asyncio.create_task(watch.tick()))
        if samples:
            threading.Thread(target=watch.sample, args=(threading.get_ident(),), daemon=True).start()

    Service.start = start
    gc.callbacks.append(watch.collecting)


if __name__ == "__main__":
    output = Path(sys.argv[1])
    watch = Watch()
    watch_all(watch, samples=sys.argv[2] == "--sample")
    sys.argv = ["toolgauge", *sys.argv[sys.argv.index("serve") :]]
    try:
        main()
    finally:
        output.write_text(watch.written())
