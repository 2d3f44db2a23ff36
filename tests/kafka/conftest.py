"""A real broker for the tests with `--long`; and every test leaves nothing behind."""

from tests.groups import is_installed
from tests.wire.conftest import forks_commands, leaves_nothing_behind, one_sink, sink, without_proxies

# Without the group `kafka` the tests of this folder skip; an error here would end pytest.
if is_installed("kafka"):
    from tests.kafka.real_broker import kafka_jars as kafka_jars
    from tests.kafka.real_broker import shared_broker as shared_broker

__all__ = ["forks_commands", "leaves_nothing_behind", "one_sink", "sink", "without_proxies"]
