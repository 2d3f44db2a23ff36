"""A real broker for the tests with `--long`; and every test leaves nothing behind."""

from collections.abc import Generator

import pytest

from tests.kafka.real_broker import Broker, installed, running_broker
from tests.wire.conftest import forks_commands, leaves_nothing_behind, one_sink, sink, without_proxies

__all__ = ["forks_commands", "leaves_nothing_behind", "one_sink", "sink", "without_proxies"]


@pytest.fixture(scope="session")
def kafka_jars(pytestconfig: pytest.Config) -> None:
    """Skip the test where a real broker is not asked for, or cannot be had."""
    if not pytestconfig.getoption("--long"):
        pytest.skip(
            "a real Kafka broker takes long: `python3 tests --long tests/kafka` fetches it (54 MiB) and runs it"
        )
    installed()


@pytest.fixture(scope="session")
def shared_broker(
    kafka_jars: None, forks_commands: None, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Broker]:
    """One broker for all tests that leave it running; each has topics and groups of its own."""
    del kafka_jars, forks_commands
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
