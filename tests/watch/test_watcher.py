"""From scorecards to regressions."""

from zlib import crc32

from tests.watch.support import HOUR, MINUTE, SECOND, START, Traffic, scorecard, watch_metrics, watcher
from toolgauge.model.regressions import Change, Regression


def began(regressions: list[Regression], tool: str | None) -> Regression:
    return next(each for each in regressions if each.phase == "began" and each.stream.tool == tool)


def test_a_worse_release_is_a_regression_that_names_both_versions() -> None:
    traffic = Traffic(watcher())
    traffic.send(300, every=20)
    assert not traffic.regressions
    traffic.send(60, every=2, version="1.1")
    found = began(traffic.regressions, "find_order")
    (cause,) = found.causes
    assert cause.changes == (Change(property="service.version", of=None, before="1.0", after="1.1"),)
    assert cause.since_ns == START + 301 * SECOND
    assert (found.stream.service, found.stream.criterion) == ("support", "default.tool_success")
    assert abs(found.onset_ns - (START + 301 * SECOND)) <= 10 * SECOND
    assert 0.9 < found.baseline < 1
    assert found.interval[0] <= found.current <= found.interval[1]
    assert (len(found.before), 1 <= len(found.after) <= 5) == (5, True)
    assert int(found.before[0], 16) <= 302
    assert all(int(trace, 16) > 290 for trace in found.after)


def test_one_tool_and_all_tools_of_its_agent_are_two_streams_of_one_incident_and_services_are_not() -> None:
    traffic = Traffic(watcher())
    for service in ("support", "sales"):
        traffic.send(300, every=20, service=service)
    for service in ("support", "sales"):
        traffic.send(60, every=2, service=service)
    incidents = {(each.stream.service, each.stream.tool): each.incident for each in traffic.regressions}
    assert incidents["support", "find_order"] == incidents["support", None] != incidents["sales", None]
    assert began(traffic.regressions, "find_order").causes == ()


def restarted(traffic: Traffic) -> None:
    rows, _ = traffic.watcher.changes()
    traffic.watcher = watcher()
    assert traffic.watcher.restore(rows) == 0


def test_after_a_restart_an_alarm_joins_the_newest_incident_that_lasts() -> None:
    traffic = Traffic(watcher())
    for tool in ("find_order", "refund", "search"):
        traffic.send(300, every=20, tool=tool)
    traffic.send(60, every=2, tool="find_order")
    traffic.number += 700
    traffic.send(60, every=2, tool="refund")
    # The older incident is the last one that is heard of.
    traffic.send(20, every=2, tool="find_order")
    restarted(traffic)
    traffic.send(60, every=2, tool="search")
    first, second, third = (began(traffic.regressions, tool) for tool in ("find_order", "refund", "search"))
    assert first.incident != second.incident
    assert third.incident == second.incident


def test_an_alarm_after_the_end_of_an_incident_is_another_one_with_and_without_a_restart() -> None:
    ids: list[str] = []
    for restarts in (False, True):
        traffic = Traffic(watcher())
        traffic.send(300, every=20)
        traffic.send(300, every=20, tool="refund")
        traffic.send(60, every=2)
        assert traffic.watcher.acknowledge({}, traffic.now_ns) == 3
        if restarts:
            restarted(traffic)
        traffic.send(100, every=20)
        traffic.send(60, every=2)
        first, *_, last = (each for each in traffic.regressions if each.phase == "began")
        assert first.incident != last.incident
        ids.append(last.incident)
    assert ids[0] == ids[1]


def test_scores_that_recover_end_the_regression() -> None:
    traffic = Traffic(watcher())
    traffic.send(300, every=20)
    traffic.send(60, every=2)
    traffic.send(200, every=20)
    ended = [each for each in traffic.regressions if each.phase == "ended" and each.stream.tool == "find_order"]
    assert len(ended) == 1
    assert not ended[0].acknowledged
    assert not [each for each in traffic.watcher.active() if each.stream.tool == "find_order"]


def test_a_conversation_of_many_traces_is_one_observation() -> None:
    watching = watcher(conversation_idle="10m")
    for number in range(40):
        card = scorecard(number, [("find_order", 1.0)], at_ns=START + number * SECOND, conversation="c-1")
        assert not watching.observe(card)
    assert not watching.statuses()
    watching.tick(START + 39 * SECOND + 10 * MINUTE)
    assert {(status.stream.tool, status.observations) for status in watching.statuses()} == {
        ("find_order", 1),
        (None, 1),
    }


def test_a_restart_neither_clears_nor_repeats_an_alarm() -> None:
    traffic = Traffic(watcher())
    traffic.send(300, every=20)
    traffic.send(60, every=2)
    rows, removed = traffic.watcher.changes()
    assert not removed
    metrics = watch_metrics()
    after = Traffic(watcher(metrics))
    after.number = traffic.number
    assert after.watcher.restore(rows) == 0
    assert set(after.watcher.active()) == set(traffic.watcher.active())
    assert sum(metrics.active.current().values()) == 2
    after.send(30, every=2)
    assert not after.regressions


def test_the_least_recently_used_stream_gives_way() -> None:
    metrics = watch_metrics()
    traffic = Traffic(watcher(metrics, max_streams=4, baseline_min=1))
    for tool in ("one", "two", "three", "four", "one"):
        traffic.send(1, every=20, tool=tool)
    traffic.watcher.tick(traffic.now_ns)
    kept = {status.stream.tool for status in traffic.watcher.statuses()}
    assert kept == {None, "one", "three", "four"}
    assert metrics.streams_evicted.value() == 2
    assert {labels[3] for labels in metrics.evidence.cells} == {"", "one", "three", "four"}


def test_streams_of_criteria_that_went_are_dropped_and_their_alarms_end() -> None:
    traffic = Traffic(watcher())
    traffic.send(300, every=20)
    traffic.send(60, every=2)
    traffic.watcher.keep({("default.tool_success", "r2"): "m2"})
    assert not traffic.watcher.statuses()
    assert [each.phase for each in traffic.watcher.tick(traffic.now_ns)] == ["ended", "ended"]
    assert not traffic.watcher.changes()[0]


def saved_by_another_release(traffic: Traffic) -> Traffic:
    """Return what a later process makes of the saved streams."""
    after = Traffic(watcher())
    after.number = traffic.number
    assert after.watcher.restore(traffic.watcher.changes()[0]) == 0
    return after


def test_a_criterion_with_another_threshold_keeps_its_baselines_over_a_restart() -> None:
    before = Traffic(watcher())
    before.watcher.keep({("default.tool_success", "r1"): "m1"})
    before.send(300, every=20)
    after = saved_by_another_release(before)
    assert not after.watcher.keep({("default.tool_success", "r2"): "m1"})
    assert [(one.stream.revision, one.state) for one in after.watcher.statuses()] == [("r2", "watching")] * 2
    assert [one.baseline for one in after.watcher.statuses()] == [one.baseline for one in before.watcher.statuses()]
    rows, removed = after.watcher.changes()
    assert (len([row for row in rows if row.startswith(b"s")]), len(removed)) == (2, 2)


def test_an_alarm_ends_under_the_old_revision_and_begins_under_the_one_of_the_same_values() -> None:
    traffic = Traffic(watcher())
    traffic.watcher.keep({("default.tool_success", "r1"): "m1"})
    traffic.send(300, every=20)
    traffic.send(60, every=2)
    traffic.watcher.keep({("default.tool_success", "r2"): "m1"})
    assert [(one.phase, one.stream.revision) for one in traffic.watcher.tick(traffic.now_ns)] == [
        ("ended", "r1"),
        ("began", "r2"),
    ] * 2
    assert {one.stream.revision for one in traffic.watcher.active()} == {"r2"}


def test_a_damaged_row_never_keeps_the_others_from_coming_back() -> None:
    traffic = Traffic(watcher())
    traffic.send(60, every=20)
    traffic.watcher.observe(scorecard(999, [("find_order", 1.0)], at_ns=traffic.now_ns, conversation="c-1"))
    rows, _ = traffic.watcher.changes()
    for row, saved in rows.items():
        for place in range(0, len(saved), 31):
            damaged = bytearray(saved)
            damaged[place] ^= 0x40
            after = watcher()
            assert after.restore({**rows, row: bytes(damaged)}) == 1
            after.tick(traffic.now_ns + HOUR)
            assert after.statuses()


def test_open_conversations_that_an_earlier_release_saved_are_dropped_without_an_error() -> None:
    row, saved = b"c" + bytes(16), b"\x93\x92\xa7support\xa3c-1\x84\x90"
    watching = watcher()
    assert watching.restore({row: crc32(saved, crc32(row)).to_bytes(4) + saved}) == 0
    assert watching.changes() == ({}, {row})


def test_gauges_are_set_once_a_second_and_not_left_behind() -> None:
    metrics = watch_metrics()
    traffic = Traffic(watcher(metrics))
    traffic.send(58, every=100)
    traffic.watcher.tick(traffic.now_ns)
    before = set(metrics.observations.cells.values())
    traffic.watcher.observe(scorecard(99, [("find_order", 1.0)], at_ns=traffic.now_ns))
    traffic.watcher.tick(traffic.now_ns)
    assert set(metrics.observations.cells.values()) == before
    due_ns = traffic.watcher.next_due_ns
    assert due_ns is not None
    traffic.watcher.tick(due_ns)
    assert set(metrics.observations.cells.values()) == {max(before) + 1}
    assert traffic.watcher.next_due_ns is None


def test_what_is_not_known_yet_is_no_0() -> None:
    metrics = watch_metrics()
    traffic = Traffic(watcher(metrics))
    assert not metrics.run_length.current()
    traffic.send(10, every=20)
    traffic.watcher.tick(traffic.now_ns)
    assert not metrics.observations.cells
    assert not metrics.alarms.cells
    traffic.send(300, every=20)
    traffic.watcher.tick(traffic.now_ns)
    assert len(metrics.alarms.cells) == len(metrics.observations.cells) == 2
    assert len(metrics.baseline.cells) == len(metrics.current.cells) == 2
    traffic.watcher.acknowledge({}, traffic.now_ns)
    assert not metrics.baseline.cells
    assert not metrics.current.cells
    assert set(metrics.active.cells.values()) == {0.0}
