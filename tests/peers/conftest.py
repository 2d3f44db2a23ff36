"""Real backends for the tests with `--long`; and every test leaves nothing behind."""

from collections.abc import Generator

import pytest

from tests.peers.backends import MLflow, Phoenix, running_mlflow, running_phoenix
from tests.wire.conftest import forks_commands, leaves_nothing_behind, without_proxies

__all__ = ["forks_commands", "leaves_nothing_behind", "without_proxies"]


@pytest.fixture(scope="session", autouse=True)
def asked_for(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--long"):
        pytest.skip("real backends take long: `python3 tests --long tests/peers` installs them (2 GB) and runs them")


@pytest.fixture(scope="session")
def phoenix(asked_for: None, forks_commands: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[Phoenix]:
    """One Phoenix for all tests; each sends traces of its own."""
    del asked_for, forks_commands
    with running_phoenix(tmp_path_factory.mktemp("phoenix")) as running:
        yield running


@pytest.fixture(scope="session")
def mlflow(asked_for: None, forks_commands: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[MLflow]:
    """One MLflow for all tests; each sends traces of its own."""
    del asked_for, forks_commands
    with running_mlflow(tmp_path_factory.mktemp("mlflow")) as running:
        yield running
