"""A dataclass with a quick constructor is the same class but for what it costs to make one."""

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from toolgauge.model.quick import quick


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Wide:
    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list[int])
    fourth: None = None


@quick
@dataclass(frozen=True, slots=True)
class Narrow:
    first: int
    second: str = "two"


def test_parameters_and_their_defaults_stay() -> None:
    assert Wide(first=1) == Wide(first=1, second="two", third=[], fourth=None)
    assert repr(Wide(first=1, third=[3])) == "Wide(first=1, second='two', third=[3], fourth=None)"
    assert repr(Narrow(1)) == "Narrow(first=1, second='two')"
    with pytest.raises(TypeError, match="first"):
        Wide()  # pyright: ignore[reportCallIssue] - that is what is tested
    with pytest.raises(TypeError, match="fifth"):
        Wide(first=1, fifth=5)  # pyright: ignore[reportCallIssue] - that is what is tested
    with pytest.raises(TypeError, match="positional"):
        Wide(1)  # pyright: ignore[reportCallIssue] - that is what is tested


def test_each_object_has_a_default_of_its_own() -> None:
    assert Wide(first=1).third is not Wide(first=1).third


@pytest.mark.parametrize("made", [Wide(first=1), Narrow(1)])
def test_what_was_made_stays_frozen(made: Wide | Narrow) -> None:
    with pytest.raises(FrozenInstanceError):
        made.first = 2  # pyright: ignore[reportAttributeAccessIssue] - that is what is tested
    assert type(made) in (Wide, Narrow)


def test_equality_hashes_and_copies_work() -> None:
    assert hash(Narrow(1)) == hash(Narrow(1, "two"))
    assert replace(Wide(first=1), second="other").second == "other"
    assert {Narrow(1): "here"}[Narrow(1)] == "here"


def test_an_open_class_stays_open() -> None:
    @quick
    @dataclass(slots=True, kw_only=True, eq=False)
    class Open:
        first: int
        second: list[int] = field(default_factory=list[int])

    made = Open(first=1)
    made.first = 2
    made.second.append(3)
    assert (made.first, made.second, Open(first=1).second) == (2, [3], [])


def test_a_class_that_does_more_when_it_is_made_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        first: int

        def __post_init__(self) -> None:
            pass

    with pytest.raises(TypeError, match="Checked"):
        quick(Checked)
