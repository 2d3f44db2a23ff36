"""Joining with less memory is joining."""

import pytest

from toolgauge.otlp.bounds import AT_ONCE, joined
from toolgauge.otlp.wire_pb2 import RequestMessage


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
def test_pieces_are_joined_in_their_order(count: int):
    pieces = [b"%d," % number for number in range(count)]
    assert joined(pieces) == b"".join(pieces)
    scopes = RequestMessage().resource_groups.add().scope_groups.add()
    scopes.scope.extend(pieces)
    assert joined(scopes.scope) == b"".join(pieces)
