"""Two workers that have taken too much: the front refuses for all of them, and has them give back what they hold."""

from pathlib import Path

import pytest

from tests.wire.sink import Sink
from tests.wire.support import fill_memory, recorded, serving, to_http, until
from tests.wire.test_health import admin_port, part, simple
from tests.workers.support import TWO, runs

# Enough for a front and two workers, and not for what `fill_memory` sends.
LITTLE_MEMORY = "memory.limit=330MiB"
LASTING = ("assemble.idle_timeout=1h", "assemble.open_idle_timeout=1h", "assemble.run_end_grace=1h", "hold.timeout=1h")


@pytest.mark.long
def test_workers_give_up_open_runs_while_memory_is_short_and_requests_are_taken_again(tmp_path: Path, sink: Sink):
    sink.tell("/down")
    (body,) = recorded("pydantic-ai", "tool_error")
    onward = to_http(sink.ports["http"], "queue: {max_bytes: 2GiB}")
    with serving(tmp_path, TWO, onward, LITTLE_MEMORY, *LASTING) as toolgauge:
        port = admin_port(toolgauge)
        toolgauge.send(runs(1, 20))
        fill_memory(toolgauge, body)
        until(lambda: part(port, "processor:memory_limiter")[0] == "StatusRecoverableError", "health to say so")
        assert simple(port) == 200
        until(lambda: toolgauge.total("toolgauge_trajectories_total"), "open runs to be given up")
        sink.tell("/up")
        until(lambda: part(port, "processor:memory_limiter")[0] == "StatusOK", "memory to suffice again")
        toolgauge.send(runs(21, 22))
        books = toolgauge.assert_books_balance()
        assert books["refused"] > 0
