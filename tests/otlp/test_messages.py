"""Joining with less memory is joining, and the generated messages are those of `wire.proto`."""

import re
from pathlib import Path

from tests.rows import each_row
from toolgauge.otlp import wire_pb2
from toolgauge.otlp.bounds import AT_ONCE, joined
from toolgauge.otlp.wire_pb2 import RequestMessage


@each_row("count", [0, 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
def test_pieces_are_joined_in_their_order(count: int):
    pieces = [b"%d," % number for number in range(count)]
    assert joined(pieces) == b"".join(pieces)
    scopes = RequestMessage().resource_groups.add().scope_groups.add()
    scopes.scope.extend(pieces)
    assert joined(scopes.scope) == b"".join(pieces)


def test_generated_messages_are_up_to_date():
    declared: set[tuple[str, str, int]] = set()
    message = ""
    for line in Path(str(wire_pb2.__file__)).with_name("wire.proto").read_text().splitlines():
        if found := re.match(r"message (\w+) {", line):
            message = found[1]
        elif found := re.search(r"(\w+) = (\d+);", line):
            declared.add((message, found[1], int(found[2])))
    messages = wire_pb2.DESCRIPTOR.message_types_by_name.values()
    assert declared == {(each.name, field.name, field.number) for each in messages for field in each.fields}
