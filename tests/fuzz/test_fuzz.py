"""No bytes make a reader fail, hang or run out of stack: what was once found, and a short run of chance.

`python3 tests --long` looks longer, `python -m tests.fuzz --minutes 10` as long as it is asked to.
"""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.__main__ import SEEDS, faults_of, sound_inputs
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import Target, Targets

NAMES = (
    "traces", "logs", "value", "json", "gunzip", "text", "config", "criteria", "references", "cases", "recording",
    "pipeline",
)  # fmt: skip
# What is read as Python, YAML or JSON overflows a stack or takes quadratic time, when anything does, on these.
STRESS = tuple(
    piece * count
    for piece in (b"[", b"(", b"{", b'{"a":', b"- ", b"a: ", b"&a [", b"!!x ", b"'", b"\\", b"1", b"-", b"A(", b"x=",
                  b"\n", b" ", b"\xff", b"\x0a\x80", b"\x12\x7f", b"\x1f\x8b\x08\x00", b"${", b"$$", b"<x: ", b"# ")
    for count in (100, 5_000, 20_000)
)  # fmt: skip


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    return dict(Targets(tmp_path_factory.mktemp("fuzz")).all())


@pytest.fixture(scope="module")
def inputs() -> dict[str, list[bytes]]:
    return sound_inputs()


@pytest.mark.parametrize("file", sorted(SEEDS.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_was_once_found_does_no_harm(file: Path, targets: dict[str, Target]):
    assert faults_of(targets[file.parent.name], file.read_bytes()) is None


@pytest.mark.parametrize("name", [name for name in NAMES if name != "pipeline"])
def test_what_exhausts_parsers_does_no_harm(name: str, targets: dict[str, Target]):
    for data in STRESS:
        assert faults_of(targets[name], data) is None, (name, data[:20], len(data))


@pytest.mark.parametrize("name", NAMES)
def test_sound_inputs_changed_by_chance_do_no_harm(
    name: str, targets: dict[str, Target], inputs: dict[str, list[bytes]], pytestconfig: pytest.Config
):
    chance = random.Random(f"{name} 1")  # noqa: S311 - the same bytes in every run
    rounds = 10 if name == "pipeline" else 60
    for _ in range(rounds * 20 if pytestconfig.getoption("--long") else rounds):
        data = mutated(chance, name, chance.choice(inputs[name]), chance.choice(inputs[name]))
        assert faults_of(targets[name], data) is None, data


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("recording", "pipeline")])
@given(data=st.binary(max_size=300))
def test_any_bytes_do_no_harm(name: str, targets: dict[str, Target], data: bytes):
    assert faults_of(targets[name], data) is None
