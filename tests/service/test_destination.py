"""What the configuration says of a destination, as the destination takes it."""

import pytest

from toolgauge.config.destinations import OtlpExporter, Queue
from toolgauge.service.exporters import destination_settings

MIB = 1024 * 1024


@pytest.mark.parametrize("queue_mib", [1, 64, 256])
def test_scores_of_the_spans_that_fill_a_queue_have_room_beside_them(queue_mib: int):
    settings = destination_settings(OtlpExporter(endpoint="localhost:4317", queue=Queue(max_bytes=queue_mib * MIB)))
    assert settings.queue_max_bytes == queue_mib * MIB
    assert settings.own_reserve_bytes >= max(16 * MIB, settings.queue_max_bytes)
