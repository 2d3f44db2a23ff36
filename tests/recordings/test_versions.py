"""Which versions are compared by themselves, and which streams stand side by side."""

from collections.abc import Mapping

from tests.recordings.support import counts, stream
from tests.rows import each_row
from toolgauge.model.regressions import Stream
from toolgauge.recordings.comparison import Filters, Versions, choose_versions, pair_streams
from toolgauge.recordings.conversation_means import Observed, StreamCounts

SEEN: Mapping[str | None, Mapping[str, int]] = {
    "shop": {"1.0": 1, "1.1": 3, "0.9": 0},
    "bank": {"7": 2, "8": 9},
    "once": {"5": 4},
}
VERSIONS = (Versions(service="shop", base="1.0", new="1.1"),)


def observed(
    base: dict[Stream, StreamCounts] | None = None,
    new: dict[Stream, StreamCounts] | None = None,
    seen: Mapping[str | None, Mapping[str, int]] = SEEN,
) -> Observed:
    return Observed(streams={"1.0": base or {}, "1.1": new or {}}, first_seen_ns=seen)


def chosen(base: str | None, new: str | None) -> list[tuple[str | None, str, str]]:
    return [(one.service, one.base, one.new) for one in choose_versions(observed(), base, new)]


@each_row(
    ("base", "new", "expected"),
    [
        (None, None, [("bank", "7", "8"), ("shop", "1.0", "1.1")]),
        ("0.9", None, [("shop", "0.9", "1.1")]),
        ("1.1", None, [("shop", "1.1", "1.0")]),
        (None, "1.0", [("shop", "0.9", "1.0")]),
        (None, "0.9", [("shop", "1.1", "0.9")]),
        ("1.1", "1.0", [("shop", "1.1", "1.0")]),
        ("1.1", "1.2", [("shop", "1.1", "1.2")]),
        (None, "1.2", [("bank", "8", "1.2"), ("once", "5", "1.2"), ("shop", "1.1", "1.2")]),
        ("nine", "ten", []),
    ],
)
def test_without_a_choice_the_newest_version_is_compared_with_the_one_before(
    base: str | None, new: str | None, expected: list[tuple[str | None, str, str]]
):
    assert chosen(base, new) == expected


def test_filters_narrow_the_view_and_a_named_tool_decides():
    streams = {stream(tool): counts(5, 5) for tool in (None, "find", "pay")}
    only = Filters([("tool", "find"), ("tool", "pay"), ("criterion", "default.tool_success"), ("level", "call")])
    pairings, _ = pair_streams(observed(streams, streams), VERSIONS, only)
    assert [(one.stream.tool, one.decides) for one in pairings] == [("find", True), ("pay", True)]
    nothing, _ = pair_streams(observed(streams, streams), VERSIONS, Filters([("agent", "nobody")]))
    assert nothing == ()
