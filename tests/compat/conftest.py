"""A serving process of an earlier state directory leaves nothing behind either."""

from tests.wire.conftest import forks_commands, leaves_nothing_behind, without_proxies

__all__ = ["forks_commands", "leaves_nothing_behind", "without_proxies"]
