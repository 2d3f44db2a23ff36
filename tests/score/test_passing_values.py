"""Two results are the same when they differ only in times, durations, counters, request ids and order."""

from tests.rows import each_row
from toolgauge.model.json import Json
from toolgauge.score.recorded_values import lasting


def are_same(first: Json, second: Json) -> bool:
    return lasting(first) == lasting(second)


@each_row(
    ("first", "second"),
    [
        ({"state": "open", "now": "2026-01-31T09:30:00.123Z"}, {"state": "open", "now": "2026-02-01 10:00:00+02:00"}),
        ({"state": "open", "checked": 1767225600}, {"state": "open", "checked": 1767225660}),
        ({"state": "open", "server_time": 17.5}, {"state": "open", "server_time": 18}),
        ({"state": "open", "durationMs": 12}, {"state": "open", "durationMs": 13}),
        ({"state": "open", "took": "12"}, {"state": "open", "took": "13"}),
        ({"state": "open", "request_count": 1}, {"state": "open", "request_count": 2}),
        ({"state": "open", "sequenceNumber": 1}, {"state": "open", "sequenceNumber": 2}),
        ({"state": "open", "X-RateLimit-Remaining": 9}, {"state": "open", "X-RateLimit-Remaining": 8}),
        ({"state": "open", "meta": {"trace_id": "a"}}, {"state": "open", "meta": {"trace_id": "b"}}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}),
        ({"rows": [{"a": 1}, {"a": 2, "b": [{"c": 1}, {}]}]}, {"rows": [{"b": [{}, {"c": 1}], "a": 2}, {"a": 1}]}),
        ("open as of 9:30 am", "open as of 10:15 am"),
        ("open at 09:30:01,250", "open at 09:30:02,125"),
        ("open (request id: 7f-a)", "open (request id: 8e-b)"),
        ("open, attempt 3 took 0.25 seconds", "open, attempt 4 took 350ms"),
        ("open after 3 requests", "open after 4 requests"),
    ],
)
def test_results_that_differ_in_what_changes_by_itself_are_the_same(first: Json, second: Json):
    assert are_same(first, second)


@each_row(
    ("first", "second"),
    [
        ({"state": "open", "now": "2026-01-31T09:30:00Z"}, {"state": "done", "now": "2026-01-31T09:30:00Z"}),
        ({"done": 0.1}, {"done": 0.2}),
        ({"job": 1, "row_count": 10}, {"job": 1, "row_count": 20}),
        ({"job": 1, "calls": [{"from": "a"}]}, {"job": 1, "calls": [{"from": "b"}]}),
        ("50 %", "100 %"),
        (["a", "b"], ["b", "a"]),
        ([{"a": 1}], [{"a": 1}, {"a": 1}]),
        (True, 1),
        (None, {}),
        # Only the time was asked for.
        ("2026-01-31T09:30:00Z", "2026-01-31T09:31:00Z"),
        ({"time": "09:30"}, {"time": "09:31"}),
        (1767225600, 1767225660),
    ],
)
def test_results_that_differ_in_more_are_not_the_same(first: Json, second: Json):
    assert not are_same(first, second)
