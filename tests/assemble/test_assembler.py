"""When a trace closes, and what happens at every limit."""

from tests.assemble.support import SECOND_NS, agent, assembler, executed, reading
from toolgauge.assemble.settings import AssembleSettings


def test_run_closes_a_grace_after_its_root_has_come():
    box, _ = assembler()
    box.add(reading("tool", executed("search"), parent="run"), 0)
    box.add(reading("run", agent("shopper")), 1 * SECOND_NS)
    assert box.next_due_ns() == 7 * SECOND_NS
    assert list(box.closed(7 * SECOND_NS - 1)) == []
    (trajectory,) = box.closed(7 * SECOND_NS)
    assert (trajectory.closed_because, len(trajectory.calls), box.open_count, box.open_bytes) == ("run_ended", 1, 0, 0)


def test_late_span_is_counted_and_not_rescored():
    box, metrics = assembler()
    box.add(reading("run", agent("shopper")), 0)
    assert len(list(box.closed(6 * SECOND_NS))) == 1
    box.add(reading("tool", executed("search"), parent="run"), 8 * SECOND_NS)
    assert box.is_closed(reading("run").ref.trace_id)
    assert metrics.late.cells[()].sum == 2.0
    assert list(box.close_all(60 * SECOND_NS)) == []


def test_oldest_trace_is_evicted_when_too_many_are_open():
    box, _ = assembler(AssembleSettings(max_open=2))
    for number in range(3):
        box.add(reading("run", agent("shopper"), parent="far", trace=f"{number:032x}"), number)
    assert box.open_count == 2
    (trajectory,) = box.closed(5)
    assert (trajectory.trace_id, trajectory.closed_because) == (f"{0:032x}", "max_open")
