"""As for the tests of the wire: nothing is left behind."""

from tests.wire.conftest import forks_commands, leaves_nothing_behind, one_sink, sink, without_proxies

__all__ = ["forks_commands", "leaves_nothing_behind", "one_sink", "sink", "without_proxies"]
