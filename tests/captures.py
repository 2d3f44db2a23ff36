"""The captured runs of `tests/corpus` that a test reads: a sample, and with `--long` all of them.

A test that takes the fixture `captured` goes through all producers, one that takes `few_captured` through every fourth. The sample holds one scenario of each producer, that which fewest producers
before it have, and each that few producers have: so it has every producer and every kind of fault.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

CORPUS = Path(__file__).parent / "corpus"
_RARE = 2


class Switches(msgspec.Struct, frozen=True):
    """The switches of a producer's application: those that were on, and by scenario those that were off."""

    on: tuple[str, ...] = ()
    off: dict[str, tuple[str, ...]] = {}


def switches(folder: str) -> Switches:
    """Look up how the application of a capture was set up."""
    written = (CORPUS / "switches.toml").read_bytes()
    return msgspec.toml.decode(written, type=dict[str, Switches]).get(folder, Switches())


class Captured(NamedTuple):
    """Scenarios of one producer."""

    folder: str
    scenarios: tuple[str, ...]

    def files(self, *scenarios: str) -> list[Path]:
        """Return the recorded requests of these scenarios, or of all, in order of arrival."""
        return [
            file
            for scenario in scenarios or self.scenarios
            for file in sorted((CORPUS / self.folder).glob(f"{scenario}.*otlp.pb"))
        ]

    def failures(self, check: Callable[[str, str], None]) -> dict[str, str]:
        """Check every scenario, and name those that fail."""
        found: dict[str, str] = {}
        for scenario in self.scenarios:
            try:
                check(self.folder, scenario)
            except AssertionError as error:
                found[f"{self.folder}/{scenario}"] = str(error)
        return found


def all_captures() -> Mapping[str, Captured]:
    """Return every scenario, by producer."""
    found: dict[str, set[str]] = {}
    for file in CORPUS.glob("*/*.otlp.pb"):
        found.setdefault(file.parent.name, set()).add(file.name.split(".")[0])
    return {folder: Captured(folder, tuple(sorted(found[folder]))) for folder in sorted(found)}


def sample() -> Mapping[str, Captured]:
    """Return few scenarios of every producer."""
    taken: Counter[str] = Counter()
    found: dict[str, Captured] = {}
    whole = all_captures()
    producers = Counter(scenario for each in whole.values() for scenario in each.scenarios)
    for folder, each in whole.items():
        needed = min(each.scenarios, key=lambda scenario: (taken[scenario], producers[scenario]))
        chosen = {needed, *(scenario for scenario in each.scenarios if producers[scenario] <= _RARE)}
        taken.update(chosen)
        found[folder] = Captured(folder, tuple(sorted(chosen)))
    return found


def few() -> Mapping[str, Captured]:
    """Return a part of the sample, for what goes wrong with any producer when it goes wrong."""
    return {folder: each for number, (folder, each) in enumerate(sample().items()) if number % 4 == 0}
