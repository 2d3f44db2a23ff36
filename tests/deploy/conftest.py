"""Deployments leave nothing behind either."""

from tests.wire.conftest import leaves_nothing_behind, without_proxies

__all__ = ["leaves_nothing_behind", "without_proxies"]
