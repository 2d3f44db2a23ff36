from collections.abc import Iterator

import pytest

from tests.recognize.support import span
from toolgauge.model.json import Value
from toolgauge.model.observations import Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Record, Span
from toolgauge.plugins import dialects
from toolgauge.recognize.recognizer import Candidates


class Stranger:
    """A dialect that declares no grounds."""

    rank = 1
    marks = ("any.",)
    scopes: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def claims(self, record: Record) -> bool:
        raise NotImplementedError

    def read(self, record: Record) -> Iterator[Observation]:
        raise NotImplementedError

    def attribute(self, record: Record, key: str) -> Value:
        raise NotImplementedError


class Asked(Stranger):
    """A dialect that goes by its grounds."""

    def __init__(self, name: str, grounds: Grounds) -> None:
        super().__init__(name)
        self.grounds = grounds


BY_KEY = Asked("by_key", Grounds(keys=("one.key", "other.key")))
BY_SCOPE = Asked("by_scope", Grounds(keys=("some.key",), scopes=("vendor.",)))
BY_NAME = Asked("by_name", Grounds(names=("run ", "tool ")))
NEVER = Asked("never", Grounds())


def candidates() -> Candidates:
    return Candidates([BY_KEY, BY_SCOPE, Stranger("stranger"), BY_NAME, NEVER])


def asked(record: Record, among: Candidates | None = None) -> list[str]:
    assert isinstance(record, Span)
    return [dialect.name for dialect in (among or candidates()).of(record)]


def test_each_ground_alone_is_enough_and_the_order_stays():
    assert asked(span({"other.key": None})) == ["by_key", "stranger"]
    assert asked(span({}, scope="vendor.agents")) == ["by_scope", "stranger"]
    assert asked(span({}, name="tool add")) == ["stranger", "by_name"]
    assert asked(span({"some.key": 1, "one.key": 2}, name="run it")) == ["by_key", "by_scope", "stranger", "by_name"]


def test_keys_count_whole_and_names_and_scopes_from_their_beginning():
    record = span({"one.key.more": 1, "one": 2}, name="a tool add", scope="a.vendor.x")

    assert asked(record) == ["stranger"]


def test_what_was_found_before_does_not_leak_into_other_scopes_and_spans():
    among = candidates()
    for _ in range(2):
        assert asked(span({"one.key": 1}, scope="vendor.a"), among) == ["by_key", "by_scope", "stranger"]
        assert asked(span({"one.key": 1}, scope="else"), among) == ["by_key", "stranger"]
        assert asked(span({"some.key": 1}, scope="else"), among) == ["by_scope", "stranger"]
        assert asked(span({}, scope="vendor.a"), among) == ["by_scope", "stranger"]


@pytest.mark.parametrize("wrong", ["vendor.", ["vendor."], None])
@pytest.mark.parametrize("kind", ["keys", "scopes", "names"])
def test_grounds_that_are_no_tuples_are_refused_at_once(kind: str, wrong: object):
    with pytest.raises(TypeError, match="are tuples of texts"):
        Grounds(**{kind: wrong})  # pyright: ignore[reportArgumentType] - a plug-in without a type checker


def test_no_scope_and_no_name_of_before_counts_however_many_there_were():
    keys = tuple(f"key.{number}" for number in range(10))
    among = Candidates([BY_NAME, *(Asked(key, Grounds(keys=(key,))) for key in keys)])
    for number in range(2000):
        on = [key for bit, key in enumerate(keys) if number >> bit & 1]
        assert asked(span(dict.fromkeys(on), scope=f"scope.{number}"), among) == on
        assert asked(span({}, name=f"run {number}"), among) == ["by_name"]
    assert asked(span({}, scope="x" * 100_000), among) == []


INSTALLED = dialects()


def test_all_installed_dialects_have_grounds():
    without = [one.name for one in INSTALLED if not isinstance(getattr(one, "grounds", None), Grounds)]
    # `generic` goes by values under any key, and is asked last.
    assert without == ["generic"], (
        "a dialect names in `grounds` the keys, scopes or span names without which it claims nothing"
    )
    assert max(INSTALLED, key=lambda one: one.rank).name == "generic"
