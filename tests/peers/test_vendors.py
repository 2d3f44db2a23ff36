"""Scores for the backends without a server to install: each request is one that the vendor's own client could have sent."""

import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.peers.environments import binaries
from tests.peers.runs import CALL, WHOLE, failed_runs
from tests.wire.agent_runs import CRITERIA
from tests.wire.support import RETRY_SOON, Process, Toolgauge, free_port, get, request, serving, until, until_equal

_PROGRAM = Path(__file__).parent / "vendor.py"
_DEADLINE_S = 60
# How each is found in the setting, beside the endpoint.
_KEYS = {
    "langfuse": "public_key: pk-1, api_key: sk-1",
    "langsmith": "api_key: sk-1, project: default",
    "opik": "api_key: sk-1",
    "datadog": "api_key: sk-1",
}


@dataclass(frozen=True)
class Fake:
    """A running fake of one vendor."""

    vendor: str
    port: int

    def answers(self, *names: str) -> None:
        """Set the next answers, and forget what was seen."""
        request(self.port, "POST", "/_answers", json.dumps(names).encode(), {})

    def seen(self) -> dict[str, Any]:
        return json.loads(get(self.port, "/_seen"))


@pytest.fixture(scope="module", params=_KEYS)
def running_fake(
    request: pytest.FixtureRequest, asked_for: None, forks_commands: None, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Fake]:
    del asked_for, forks_commands
    port, log = free_port(), tmp_path_factory.mktemp("fake") / "fake.log"
    process = Process([str(binaries("vendors") / "python"), str(_PROGRAM), request.param, str(port)], log)

    def is_ready() -> bool:
        assert process.is_running(), process.said()
        return "ready" in process.said()

    try:
        until(is_ready, "the fake to be ready", 300)
        yield Fake(request.param, port)
    finally:
        process.close()


@pytest.fixture
def fake(running_fake: Fake) -> Fake:
    """A fake that has seen nothing."""
    running_fake.answers()
    return running_fake


@pytest.fixture
def toolgauge(fake: Fake, tmp_path: Path) -> Generator[Toolgauge]:
    criteria = tmp_path / "criteria.yaml"
    criteria.write_text(CRITERIA)
    keys = (f"endpoint: http://127.0.0.1:{fake.port}", _KEYS[fake.vendor], f"criteria: [{CALL}, {WHOLE}]")
    settings = f"exporters.{fake.vendor}={{{', '.join(keys)}, timeout: 1s, {RETRY_SOON}}}"
    with serving(tmp_path, f"criteria_files=[{criteria}]", settings) as running:
        yield running


def taken(fake: Fake) -> list[tuple[str, float]]:
    # Names for Datadog have no points and no dashes.
    names = {name.replace(".", "_").replace("-", "_"): name for name in (CALL, WHOLE)}
    scores: list[tuple[str, str, float]] = fake.seen()["scores"]
    return sorted((names.get(name, name), value) for _, name, value in scores)


def outcomes(toolgauge: Toolgauge) -> dict[str, float]:
    """Add up the books of scores by outcome."""
    books = dict[str, float]()
    for (name, labels), value in toolgauge.samples().items():
        if name == "toolgauge_scores_total":
            outcome = dict(labels)["toolgauge_outcome"]
            books[outcome] = books.get(outcome, 0) + value
    return books


def test_each_request_is_one_that_the_vendors_client_could_have_sent(fake: Fake, toolgauge: Toolgauge):
    runs = failed_runs(3)
    for run in runs:
        toolgauge.send(run.body, "http")
    until(lambda: len(fake.seen()["scores"]) + len(fake.seen()["invalid"]) >= 6, "all scores", _DEADLINE_S)
    assert fake.seen()["invalid"] == []
    assert [name for name, _ in taken(fake)] == [CALL] * 3 + [WHOLE] * 3
    assert [value for name, value in taken(fake) if name == CALL] == [0, 0, 0]


@pytest.mark.parametrize("answer", ["404", "429", "503", "slow"])
def test_a_score_arrives_after_answers_that_pass(fake: Fake, toolgauge: Toolgauge, answer: str):
    if answer == "404" and fake.vendor != "langsmith":
        pytest.skip("takes scores of spans that it does not have")
    fake.answers(answer, answer)
    (run,) = failed_runs(1)
    toolgauge.send(run.body, "http")
    until_equal(lambda: [name for name, _ in taken(fake)], [CALL, WHOLE], "both scores", _DEADLINE_S)
    until_equal(lambda: fake.seen()["refused"], [answer, answer], "both answers", _DEADLINE_S)
    assert fake.seen()["invalid"] == []
    until_equal(lambda: outcomes(toolgauge).get("delivered"), 2, "the books")


def test_what_is_too_large_is_halved_and_a_wrong_key_is_counted(fake: Fake, toolgauge: Toolgauge):
    fake.answers("413")
    (run,) = failed_runs(1)
    toolgauge.send(run.body, "http")
    until_equal(lambda: outcomes(toolgauge).get("accepted"), 2, "two scores")
    until(lambda: sum(outcomes(toolgauge).values()) == 4, "the end of both")
    halved = [] if outcomes(toolgauge).get("dropped") else [CALL, WHOLE]
    assert halved or fake.vendor == "langsmith", "one score a request cannot be halved"
    fake.answers(*["401"] * 10)
    (run,) = failed_runs(1)
    toolgauge.send(run.body, "http")
    until(lambda: outcomes(toolgauge).get("dropped", 0) >= 2, "scores that were dropped")
    assert fake.seen()["invalid"] == []
