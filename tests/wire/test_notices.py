"""A loop is told to a webhook while its run goes on, by one process and by the front of two workers."""

from pathlib import Path

import pytest

from tests.walk.shapes import tool
from tests.walk.test_notices import Run
from tests.wire.alertmanager import webhook_listening
from tests.wire.support import serving, until
from tests.workers.support import TWO

SETTINGS = ("trace_url=https://traces.example/{trace_id}", "defaults.repeated_calls={notify: true}")


@pytest.mark.parametrize("workers", ["workers=1", TWO])
def test_a_loop_is_told_after_its_tenth_identical_call_while_the_run_goes_on(tmp_path: Path, workers: str):
    with webhook_listening() as webhook:
        with serving(tmp_path, workers, f"exporters.webhook.url={webhook.url}", *SETTINGS) as toolgauge:
            run = Run(toolgauge)
            for _ in range(10):
                run.call("process", '{"action": "poll", "session": "s3cret"}')
            until(lambda: webhook.notifications, "the message")
            for _ in range(20):
                run.call("process", '{"action": "poll", "session": "s3cret"}')
        (body,) = webhook.notifications
    (failure,) = body["failures"]
    trace_id = tool("process", "{}", id="any").spans[0].trace_id.hex()
    assert failure["sentence"] == (
        "`default.repeated_calls` of `process` of service `shop` fails while the run goes on: "
        "`process` was called 10 times with the same arguments and nothing changed in between"
    )
    assert (failure["url"], failure["is_open"]) == (f"https://traces.example/{trace_id}", True)
    assert f"fails while the run goes on (trace {trace_id})" in toolgauge.said()
    assert "s3cret" not in toolgauge.said()
