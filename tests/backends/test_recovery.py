"""Scores of a process that was killed, and of one run that is replayed."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec
import pytest

from tests.cli.command import run
from tests.http_server import Quiet, answering
from tests.walk.support import MemoryJournal, Walk
from toolgauge.state.ledger import NO_LEDGER

SWITCH = "exporters.phoenix.results=null"
RUN = str(Path(__file__).parent.parent / "corpus" / "pydantic-ai" / "one_call.otlp.pb")


def scores(walk: Walk) -> list[bytes]:
    return [outgoing.body for outgoing in walk.bag.taken if outgoing.signal == "scores"]


def test_scores_that_were_not_confirmed_are_sent_by_the_next_process_as_they_were():
    journal = MemoryJournal()
    first = Walk(SWITCH, journal=journal)
    # Nothing is confirmed.
    first.bag.ledger = NO_LEDGER
    first.send_folder("pydantic-ai", "one_call")
    first.wait(60)
    assert len(scores(first)) == 1
    second = Walk(SWITCH, journal=journal)
    second.recover()
    second.wait(60)
    assert scores(second) == scores(first)
    third = Walk(SWITCH, journal=journal)
    third.recover()
    third.wait(60)
    assert not scores(third)


class Phoenix(Quiet, BaseHTTPRequestHandler):
    """Takes annotations, and refuses all with another status on request."""

    taken: list[dict[str, str]]
    status = 200

    def do_POST(self) -> None:
        """Take them."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).taken += msgspec.json.decode(body)["data"] if self.status == 200 else []
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def phoenix() -> Iterator[str]:
    Phoenix.taken, Phoenix.status = [], 200
    with answering(Phoenix) as url:
        yield url


def test_a_backlog_is_scored_into_a_backend_under_the_same_names_each_time(phoenix: str):
    ended = run("check", "--fail-on", "nothing", "--to", f"phoenix={phoenix}", RUN)
    assert ended.code == 0
    names = [(one["span_id"], one["name"], one["identifier"]) for one in Phoenix.taken]
    assert len(names) == len(set(names)) > 0
    assert f"phoenix: {len(names)} of {len(names)} scores sent" in ended.err.splitlines()
    assert run("check", "--fail-on", "nothing", "--to", f"phoenix={phoenix}", RUN).code == 0
    assert [(one["span_id"], one["name"], one["identifier"]) for one in Phoenix.taken] == names * 2


def test_scores_that_a_backend_refuses_fail_the_replay(phoenix: str):
    Phoenix.status = 401
    ended = run("check", "--fail-on", "nothing", "--to", f"phoenix={phoenix}", RUN)
    assert ended.code == 1
    assert any(line.startswith("phoenix: 0 of ") and line.endswith("http_401") for line in ended.err.splitlines())


@pytest.mark.parametrize(
    ("to", "words"),
    [("zipkin=http://localhost", "no backend called `zipkin`"), ("opik", "`exporters.opik` is not set")],
)
def test_a_backend_that_is_not_known_is_misuse(to: str, words: str):
    ended = run("check", "--fail-on", "nothing", "--to", to, RUN)
    assert ended.code == 2
    assert words in ended.err
