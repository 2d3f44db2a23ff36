import pytest

from toolgauge.receive import http


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close refused connections soon: each test waits until its sockets are gone."""
    monkeypatch.setattr(http, "_LINGER_S", 0.3)
