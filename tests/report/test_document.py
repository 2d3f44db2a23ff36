"""Trajectories as one HTML file."""

import base64
import hashlib
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, scorecard, trajectory
from tests.web.html_reader import Html
from tests.web.test_trajectory_pages import ATTRIBUTES, ELEMENTS, HOSTILE, hostile_card, recorded
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scorecard
from toolgauge.report.document import TrajectoryDocument


def written(
    path: Path, *cards: Scorecard, show_values: bool = True, title: str = "Trajectories", room: int = 1000
) -> str:
    document = TrajectoryDocument(str(path), Redactor(show_values=show_values), {}, None, max_trajectories=room)
    document.open(title)
    for card in cards:
        document.add(card)
    document.close()
    return path.read_text(encoding="utf-8")


def test_file_allows_its_own_style_and_script_alone(tmp_path: Path):
    html = written(tmp_path / "runs.html", *recorded())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        (inside,) = re.findall(f"<{element}>(.*?)</{element}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} &#39;sha256-{digest}&#39;" in policy[1]
    assert policy[1].startswith("default-src &#39;none&#39;;")


def test_file_refers_to_nothing_outside(tmp_path: Path):
    read_back = Html(written(tmp_path / "runs.html", *recorded()))
    assert read_back.links
    assert all(link.startswith("#") for link in read_back.links)
    assert {link.removeprefix("#") for link in read_back.links} <= set(read_back.ids)
    assert len(read_back.ids) == len(set(read_back.ids))


def test_hidden_values_are_not_in_the_file(tmp_path: Path):
    html = written(tmp_path / "runs.html", *recorded(), show_values=False)
    assert "42.5" not in html
    assert "amount hidden (number)" in Html(html).text


def test_hostile_text_adds_nothing_to_the_file(tmp_path: Path):
    html = written(tmp_path / "runs.html", hostile_card(), title=HOSTILE)
    read_back = Html(html)
    names = {f"data-{name}" for name in ("outcome", "service", "version", "agent", "tool", "criterion")}
    assert read_back.elements <= ELEMENTS | {"style", "footer", "h4"}
    assert read_back.attributes <= ATTRIBUTES | names | {"http-equiv"}
    assert html.count("<script") == 1


def test_passes_take_no_room_from_failures(tmp_path: Path):
    passed, failed = (
        next(card for card in recorded() if card.results and is_failed is any(_fails(card)))
        for is_failed in (False, True)
    )
    text = Html(written(tmp_path / "runs.html", *[passed] * 5, failed, room=2)).text
    assert "3 more trajectories are not in this file: it holds 2 that failed and 2 others at most" in text
    assert "3 trajectories, 1 failed" in text


def _fails(card: Scorecard) -> list[bool]:
    return [getattr(result.outcome, "passed", None) is False for result in card.results]


def test_other_files_are_not_replaced(tmp_path: Path):
    path = tmp_path / "recording.otlp"
    path.write_bytes(b"\n\x05spans")
    with pytest.raises(ToolgaugeError, match="it exists, and is no HTML"):
        written(path)
    assert path.read_bytes() == b"\n\x05spans"
    page = tmp_path / "runs.html"
    written(page, *recorded())
    assert "The recording holds no trajectory" in written(page)


def test_file_that_was_not_completed_leaves_nothing(tmp_path: Path):
    document = TrajectoryDocument(str(tmp_path / "runs.html"), Redactor(show_values=True), {}, None)
    document.open("Trajectories")
    document.add(recorded()[0])
    document.discard()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ToolgaugeError, match="No such file or directory"):
        written(tmp_path / "nowhere" / "runs.html")


def test_failures_come_first_then_errors_then_what_was_not_evaluated(tmp_path: Path):
    outcomes: dict[str, Outcome] = {
        "first-pass": passed(),
        "unseen": NotEvaluated(reason="no_calls"),
        "broken": Errored(error_type="ValueError", message="no number"),
        "wrong": failed(),
        "last-pass": passed(),
        "wrong-again": failed(),
    }
    cards = [
        scorecard(call_result(outcome), of=replace(trajectory(call()), service=service))
        for service, outcome in outcomes.items()
    ]
    html = written(tmp_path / "runs.html", *cards)
    order = re.findall('data-service="([^"]*)"', html)
    assert order == ["wrong", "wrong-again", "broken", "unseen", "first-pass", "last-pass"]
    text = Html(html).text
    assert "2 failed, 1 with an error of the evaluation, 1 not evaluated, 2 passed" in text
    assert text.index("2 failed, 1 with") < text.index("wrong")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.html"]
