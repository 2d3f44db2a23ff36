"""Each pattern takes linear time, or stands behind a limit on the length of what it is given.

Patterns are found where modules keep them, so that a new one is tested too.
"""

import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

import toolgauge

LENGTH = 30_000
# A linear pattern takes a hundredth of this for such a text, a quadratic one twice as much and more.
MOST_CPU_S = 0.1
# A first look: a quadratic pattern takes twice this for a tenth of the length, a linear one a tenth of it.
SHORT, QUICK_CPU_S = LENGTH // 10, 0.001
# A second one, at what is slow and may be linear: three times the length takes a quadratic one nine times as long.
LONGER, MOST_GROWTH = 3 * SHORT, 5
# Patterns that are given at most so many characters, where that is ensured beside them.
LIMITED = {
    f"toolgauge.assemble.failures.{name}": 4096
    for name in ("_NO_SUCH_TOOL", "_NOT_THESE_ARGUMENTS", "_VALIDATED", "_PARAMETER")
}

LIMITED["toolgauge.model.masks._MARKER"] = 200
LIMITED["toolgauge.model.names._ID"] = 256
LIMITED["toolgauge.evaluators.answer_checks._LABEL"] = 60

LITERAL = re.compile(r"[\w \-'\"=<:]{2,}")
# What the classes of most patterns hold, one character each.
CHARACTERS = ("a", "A", "1", "_", " ", "\n", ".", ",", ":", "-", "'", '"', "\\", "(", "[", "]", "{", "<", ">", "=")

# Of text or of bytes: each is given what it takes.
AnyPattern: TypeAlias = re.Pattern[Any]
Found: TypeAlias = tuple[str, AnyPattern, tuple[str, ...]]


def patterns() -> Iterator[Found]:
    """All patterns that modules keep, by name, and the methods that their modules call."""
    for module_info in pkgutil.walk_packages(toolgauge.__path__, "toolgauge."):
        if module_info.name.endswith("__main__"):
            continue
        module = importlib.import_module(module_info.name)
        source = Path(module.__file__ or "").read_text()
        for name, value in vars(module).items():
            for pattern in kept_patterns(value):
                methods = re.findall(rf"\b{name}\.(match|search|fullmatch|findall|finditer|sub|split)\b", source)
                yield f"{module_info.name}.{name}", pattern, tuple(sorted(set(methods))) or ("search", "fullmatch")


def kept_patterns(value: object) -> Iterable[AnyPattern]:
    """The patterns that a module's variable holds."""
    items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return [cast("AnyPattern", item) for item in items if isinstance(item, re.Pattern)]


def hostile_texts(pattern: AnyPattern, every: int) -> Iterator[tuple[str, str]]:
    """What texts begin with, and what they repeat: all that the pattern looks for, whole or in part, and of pairs of any characters one in so many."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    literals = sorted({found.strip() or " " for found in LITERAL.findall(re.sub(r"\\[A-Za-z]", " ", source))})[:12]
    pieces = [*literals, *CHARACTERS]
    for piece in pieces:
        yield "", piece
    for first, second in [*product(literals, pieces)][:: (every + 1) // 2]:
        yield first, second
        yield "", first + second
    for first, second in [*product(CHARACTERS, CHARACTERS)][::every]:
        yield "", first + second


def text_of(first: str, piece: str, length: int) -> str:
    return first + (piece * (length // len(piece) + 1))[:length] + "\x00"


def use(pattern: AnyPattern, method: str) -> Callable[[str], object]:
    if method == "sub":
        nothing: Any = b"" if isinstance(pattern.pattern, bytes) else ""
        return lambda text: pattern.sub(nothing, text)
    if method == "finditer":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    used: Callable[[str], object] = getattr(pattern, method)
    return used


FOUND = {name: (pattern, methods) for name, pattern, methods in patterns()}


def room_of(name: str) -> str:
    return name.split(".")[1]


@pytest.mark.parametrize("room", sorted({room_of(name) for name in FOUND}))
def test_the_patterns_of_a_room_take_linear_time(room: str, pytestconfig: pytest.Config):
    every = 1 if pytestconfig.getoption("--long") else 7
    assert [slow for name in FOUND if room_of(name) == room for slow in slow_texts(name, every)] == []


def slow_texts(name: str, every: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield the texts on which a pattern takes too long, with the method."""
    pattern, methods = FOUND[name]
    limit = LIMITED.get(name)
    for (first, piece), method in product(hostile_texts(pattern, every), methods):

        def cpu_s(length: int, first: str = first, piece: str = piece, method: str = method) -> float:
            return used_s(pattern, method, text_of(first, piece, length))

        if limit is None and looks_linear(cpu_s):
            continue
        # Twice, because others use the processor too.
        if all(cpu_s(limit or LENGTH) >= MOST_CPU_S for _ in range(2)):
            yield name, method, first, piece


def looks_linear(cpu_s: Callable[[int], float]) -> bool:
    short_s = cpu_s(SHORT)
    return short_s < QUICK_CPU_S or cpu_s(LONGER) < MOST_GROWTH * short_s


def used_s(pattern: AnyPattern, method: str, text: str) -> float:
    given: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
    began = time.process_time()
    use(pattern, method)(given)
    return time.process_time() - began


def test_patterns_are_found():
    assert len(FOUND) > 60
    assert LIMITED.keys() <= FOUND.keys()
