"""The pages of verdicts and of differences: runs of a shop, some of which skip the lookup before the refund."""

import stat
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, scorecard, trajectory, trajectory_result
from tests.web.html_reader import Html
from tests.web.streams import TEMPLATES
from tests.web.test_trajectory_pages import ATTRIBUTES, ELEMENTS, HOSTILE
from toolgauge.authoring.adopted import adopted
from toolgauge.export.redact import Redactor
from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Enforce, Result, Scorecard
from toolgauge.web.pages import FormError, PageContent, PageRequest, Writing
from toolgauge.web.trajectory_pages import trajectories
from toolgauge.web.trajectory_store import TrajectoryStore
from toolgauge.web.verdict_pages import separation, take, verdicts
from toolgauge.web.verdict_store import RunVerdict

NOTHING: Final = PageRequest(path=("separation",))


def run(number: int, *, looks: bool = True, results: tuple[Result, ...] = ()) -> Scorecard:
    """Make a run that refunds an order, mostly after looking it up; one result passes in any case."""
    order: JsonObject = {"order_id": f"A-{number}"}
    refund = replace(call("refund_order"), order=1, turn=1, arguments=Recorded(order), result=Recorded({"ok": True}))
    look = replace(call("find_order"), arguments=Recorded(order), result=Recorded({**order, "total": 20 + number}))
    of = trajectory(*([look, refund] if looks else [refund]))
    return scorecard(trajectory_result(passed()), *results, of=replace(of, trace_id=f"{number:032x}"))


def content(*runs: Scorecard, state: Path | None = None) -> PageContent:
    """Make pages that keep these runs."""
    store = TrajectoryStore(1000, 1 << 30)
    for each in runs:
        store.add(each)
    writing = Writing(redactor=Redactor(show_values=False), trace_url=None)
    return PageContent(store, writing, templates=TEMPLATES, state=state)


def mark(shown: PageContent, run: Scorecard, *, is_good: bool, reason: str = "") -> None:
    """Give a verdict on a run."""
    shown.verdicts.give(RunVerdict.on(run.trajectory, "good" if is_good else "bad", reason, "web view", 1), run)


def skipping(state: Path | None = None, *, good: int = 0) -> PageContent:
    """Make pages of 3 bad runs, which skip the lookup, and 20 others, of which some are marked good."""
    bad = [run(number, looks=False) for number in range(100, 103)]
    others = [run(number) for number in range(20)]
    shown = content(*bad, *others, state=state)
    for each in bad:
        mark(shown, each, is_good=False, reason="skipped a step")
    for each in others[:good]:
        mark(shown, each, is_good=True)
    return shown


def page(shown: PageContent) -> str:
    html = separation(shown, NOTHING)
    assert html is not None
    return html


def the_criterion(shown: PageContent) -> str:
    """Name the criterion for what the bad runs skip."""
    page(shown)
    assert shown.compared is not None
    found = [one for one in shown.compared.separation.separators if "find_order" in one.sentence]
    assert len(found[0].found) == 3
    assert found[0].flagged == ()
    return found[0].name


def test_three_bad_runs_are_told_from_those_that_nobody_marked():
    text = Html(page(skipping())).text
    assert "3 bad runs beside 20 unmarked ones" in text
    assert "`find_order`" in text
    assert "3 of 3" in text
    assert "0 of 20" in text
    assert "runs that nobody marked are taken for good ones" in text
    assert "Set state.directory" in text


def test_marked_good_runs_are_compared_where_there_are_some():
    text = Html(page(skipping(good=12))).text
    assert "3 bad runs beside 12 good ones" in text
    assert "nobody marked" not in text


def test_an_unmarked_run_that_fails_like_a_bad_one_is_not_taken_for_a_good_one():
    failing = (trajectory_result(failed(), "refund-f1"),)
    bad, alike = run(100, looks=False, results=failing), run(101, looks=False, results=failing)
    shown = content(bad, alike, *(run(number) for number in range(8)))
    mark(shown, bad, is_good=False)
    assert "1 bad run beside 8 unmarked ones" in Html(page(shown)).text


def test_a_click_tries_a_criterion_in_the_shadow_and_a_second_makes_it_live(tmp_path: Path):
    shown = skipping(tmp_path)
    name = the_criterion(shown)
    assert "Try it in the shadow" in page(shown)
    assert take(shown, {"name": name, "step": "shadow"}) == "/separation"
    assert adopted(tmp_path) == {name: "shadow"}
    assert stat.S_IMODE((tmp_path / "learned.yaml").stat().st_mode) == 0o600
    assert "Make it live" in page(shown)
    take(shown, {"name": name, "step": "live"})
    assert adopted(tmp_path) == {name: "live"}
    take(shown, {"name": name, "step": "drop"})
    assert adopted(tmp_path) == {}


def test_a_click_means_the_page_that_was_shown_although_other_runs_have_come_since(tmp_path: Path):
    shown = skipping(tmp_path)
    name = the_criterion(shown)
    shown.store.add(run(300, looks=False))
    take(shown, {"name": name, "step": "shadow"})
    assert adopted(tmp_path) == {name: "shadow"}


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"name": "learned.nothing", "step": "shadow"}, 404),
        ({"name": "../../etc/passwd", "step": "live"}, 404),
        ({"name": "x", "step": "rm"}, 400),
        ({}, 400),
    ],
)
def test_a_form_adopts_nothing_but_what_the_page_offers(form: dict[str, str], status: int, tmp_path: Path):
    with pytest.raises(FormError) as refused:
        take(skipping(tmp_path), form)
    assert refused.value.status == status
    assert list(tmp_path.iterdir()) == []


def test_without_a_state_directory_nothing_is_adopted():
    shown = skipping()
    with pytest.raises(FormError, match=r"state\.directory"):
        take(shown, {"name": the_criterion(shown), "step": "shadow"})


def test_runs_that_are_scored_and_marked_later_show_whether_a_criterion_agrees(tmp_path: Path):
    shown = skipping(tmp_path)
    name = the_criterion(shown)
    take(shown, {"name": name, "step": "shadow"})
    assert "none marked yet" in page(shown)
    enforce: Enforce = "shadow"
    fails = replace(trajectory_result(failed(), name), enforce=enforce)
    passes = replace(trajectory_result(passed(), name), enforce=enforce)
    mark(shown, run(201, looks=False, results=(fails,)), is_good=False)
    mark(shown, run(202, looks=False, results=(passes,)), is_good=False)
    mark(shown, run(203, results=(passes,)), is_good=True)
    text = Html(page(shown)).text
    assert f"{name} shadow 1 of 2 0 of 1" in text


def test_a_file_that_somebody_broke_is_named_and_not_written_over(tmp_path: Path):
    shown = skipping(tmp_path)
    name = the_criterion(shown)
    (tmp_path / "learned.yaml").write_text("criteria: [")
    assert "learned.yaml" in Html(page(shown)).text
    with pytest.raises(FormError, match=r"learned\.yaml"):
        take(shown, {"name": name, "step": "shadow"})
    assert (tmp_path / "learned.yaml").read_text() == "criteria: ["


def test_the_list_of_verdicts_names_reason_and_source():
    html = verdicts(skipping(good=1), PageRequest(path=("verdicts",)))
    assert html is not None
    text = Html(html).text
    assert "3 bad and 1 good" in text
    assert "marked bad skipped a step web view" in text
    assert text.count("marked bad") == 3


def test_nothing_marked_says_how_to_mark():
    shown = content(run(1))
    html = verdicts(shown, PageRequest(path=("verdicts",)))
    assert html is not None
    assert "No verdict yet" in html
    assert "No run is marked bad" in page(shown)


def test_hostile_text_adds_no_element_and_no_attribute(tmp_path: Path):
    made = replace(call(HOSTILE), arguments=Recorded({HOSTILE: HOSTILE}), result=Recorded(HOSTILE))
    card = scorecard(call_result(failed(), made), of=replace(trajectory(made), service=HOSTILE))
    shown = content(card, *(run(number) for number in range(5)), state=tmp_path)
    given = RunVerdict.on(card.trajectory, "bad", HOSTILE, HOSTILE, 1)
    shown.verdicts.give(given, card)
    for show, path in (
        (verdicts, ("verdicts",)),
        (separation, ("separation",)),
        (trajectories, ("trajectories",)),
        (trajectories, ("trajectories", card.trajectory.trace_id)),
    ):
        html = show(shown, PageRequest(path=path))
        assert html is not None
        read_back = Html(html)
        assert read_back.elements <= ELEMENTS
        assert read_back.attributes <= ATTRIBUTES
        assert not {"\u202e", "\x1b", "\x00", "\ud83d"} & set(html)
