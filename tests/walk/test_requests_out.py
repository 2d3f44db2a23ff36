"""What leaves is never an empty envelope."""

import pytest

from tests.walk.support import Walk
from toolgauge.otlp.envelope import count_items


def test_no_empty_envelope_is_sent():
    walk = Walk()
    # All spans of these requests are held, so that nothing is left of the requests themselves.
    walk.send_folder("openai-agents", "")
    walk.wait(60)
    assert walk.bag.taken
    for outgoing in walk.bag.taken:
        if outgoing.signal != "metrics":
            assert count_items(outgoing.body) > 0


@pytest.mark.parametrize("body", [b"\n\0", b"\n\x02\x12\0", b"\n\x02\x12\0" * 3])
def test_an_envelope_without_spans_is_not_sent_on(body: bytes):
    walk = Walk()
    walk.send(body)
    walk.wait(60)
    assert walk.bag.taken == []
