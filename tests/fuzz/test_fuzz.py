"""No bytes make a reader fail, hang or run out of stack: what was once found, and a short run of chance.

`python3 tests --long` looks longer, `python -m tests.fuzz --minutes 10` as long as it is asked to.
"""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from tests.captures import Captured, all_captures, sample
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


def test_every_target_is_run(targets: dict[str, Target], inputs: dict[str, list[bytes]]):
    assert sorted(targets) == sorted(NAMES)
    assert sorted(inputs) == sorted(NAMES)


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


def _one_span_requests(captures: Iterable[Captured]) -> Iterator[ExportTraceServiceRequest]:
    """Yield one recorded span of each name of each framework, alone in its request."""
    seen: set[tuple[str, str, str]] = set()
    for file in (file for captured in captures for file in captured.files()):
        if ".logs." in file.name:
            continue
        for group in ExportTraceServiceRequest.FromString(file.read_bytes()).resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    key = (file.parent.name, scope.scope.name, span.name)
                    if key not in seen:
                        seen.add(key)
                        alone = ScopeSpans(scope=scope.scope, spans=[span])
                        yield ExportTraceServiceRequest(
                            resource_spans=[ResourceSpans(resource=group.resource, scope_spans=[alone])]
                        )


def test_no_dialect_fails_on_an_attribute_of_another_kind(targets: dict[str, Target], pytestconfig: pytest.Config):
    strange = AnyValue()
    strange.kvlist_value.values.add(key="type").value.array_value.values.add(int_value=1)
    strange_list = AnyValue()
    strange_list.array_value.values.add().CopyFrom(strange)
    strange_text = AnyValue(
        string_value='[{"role": ["x"], "type": {"a": 1}, "content": [[]], "tool_calls": [null, 1, {}]}]'
    )
    chance = random.Random(2)  # noqa: S311 - the same values in every run
    captures = all_captures() if pytestconfig.getoption("--long") else sample()
    for request in _one_span_requests(captures.values()):
        span = request.resource_spans[0].scope_spans[0].spans[0]
        for attribute in span.attributes:
            given_value = AnyValue.FromString(attribute.value.SerializeToString())
            attribute.value.CopyFrom(chance.choice((strange, strange_list, strange_text)))
            fault = faults_of(targets["traces"], request.SerializeToString())
            assert fault is None, (attribute.key, fault)
            attribute.value.CopyFrom(given_value)
