import sys
from collections.abc import Iterator
from types import ModuleType
from typing import cast

import pytest

from tests.recognize.support import span
from tests.rows import each_row
from toolgauge.model.json import Value
from toolgauge.model.observations import Observation
from toolgauge.model.ports import Dialect, Grounds
from toolgauge.model.records import Record, Span
from toolgauge.plugins import dialects
from toolgauge.recognize import conventions
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


def test_a_dialect_without_grounds_is_asked_about_every_span():
    assert asked(span({})) == ["stranger"]


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


def test_all_are_asked_about_a_span_of_very_many_attributes():
    many: dict[str, Value] = {f"key.{number}": number for number in range(200)}

    assert asked(span(many)) == ["by_key", "by_scope", "stranger", "by_name", "never"]


@pytest.mark.parametrize("wrong", ["vendor.", ["vendor."], None])
@pytest.mark.parametrize("kind", ["keys", "scopes", "names"])
def test_grounds_that_are_no_tuples_are_refused_at_once(kind: str, wrong: object):
    with pytest.raises(TypeError, match="are tuples of texts"):
        Grounds(**{kind: wrong})  # pyright: ignore[reportArgumentType] - a plug-in without a type checker


def test_memory_of_scopes_and_findings_is_bounded_and_stays_right():
    keys = tuple(f"key.{number}" for number in range(10))
    among = Candidates([Asked(key, Grounds(keys=(key,))) for key in keys])
    for number in range(1024):
        on = [key for bit, key in enumerate(keys) if number >> bit & 1]
        assert asked(span(dict.fromkeys(on), scope=f"scope.{number}"), among) == on
    assert asked(span({}, scope="x" * 100_000), among) == []
    assert among.remembered <= 512 + 256


def test_memory_of_names_is_bounded_and_stays_right():
    among = candidates()
    for number in range(1000):
        assert asked(span({}, name=f"run {number}"), among) == ["stranger", "by_name"]
        assert asked(span({}, name=f"ran {number}"), among) == ["stranger"]
    assert asked(span({}, name="tool " + "x" * 100_000), among) == ["stranger", "by_name"]
    assert among.remembered <= 256 + 4


INSTALLED = dialects()


class Fits(str):
    """A value that is whatever it is compared with."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def words(dialect: Dialect) -> list[str]:
    """Give every text that the dialect's module, or one it uses, has a name for: what its claims look at is among them."""
    own = sys.modules[type(dialect).__module__]
    modules = [own, *(value for value in vars(own).values() if isinstance(value, ModuleType))]
    told: list[object] = [value for module in modules if _is_ours(module) for value in vars(module).values()]
    grouped = [cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,) for value in told]
    return sorted({word for group in grouped for word in group if isinstance(word, str)})


def _is_ours(module: ModuleType) -> bool:
    return module.__name__.startswith("toolgauge.")


def likely_spans(dialect: Dialect) -> Iterator[Span]:
    known = words(dialect)
    for word in known:
        for beside in known:
            yield span({word: Fits()}, scope=beside)
            yield span({word: Fits()}, name=beside + " x")
            yield span({}, scope=word, name=beside)
            yield span({word: Fits(), conventions.OPERATION: Fits()}, scope=beside)
            yield span({word: Fits(), beside: Fits()})


def test_all_installed_dialects_have_grounds():
    without = [one.name for one in INSTALLED if not isinstance(getattr(one, "grounds", None), Grounds)]
    # `generic` goes by values under any key, and is asked last.
    assert without == ["generic"], (
        "a dialect names in `grounds` the keys, scopes or span names without which it claims nothing"
    )
    assert max(INSTALLED, key=lambda one: one.rank).name == "generic"


@each_row("dialect", INSTALLED, ids=lambda dialect: dialect.name)
def test_an_installed_dialect_is_asked_about_every_span_that_it_would_claim(dialect: Dialect):
    # One for all spans, as in a pipeline: what it remembers must not mislead it.
    among = Candidates(INSTALLED)
    claimed = [record for record in likely_spans(dialect) if dialect.claims(record)]

    assert claimed or dialect.name in {"agentcore", "codex", "generic"}, (
        f"`claims` of {dialect.name} took none of the spans made of its words: make the keys, scopes and span names that "
        "it looks at constants of its module, not literals in `claims`"
    )
    assert [record for record in claimed if dialect not in among.of(record)] == []
