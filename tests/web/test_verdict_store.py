"""Verdicts on runs: what replaces what, what is kept, and what a damaged or hostile one does."""

import sqlite3
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tests.web.support import recorded_scorecards
from toolgauge.authoring.labels import Labelled, read_labels
from toolgauge.model.content import Recorded
from toolgauge.model.feedback import Feedback
from toolgauge.model.json import Json
from toolgauge.model.outcomes import Scorecard
from toolgauge.state.store import FILE_NAME, StateStore
from toolgauge.web.verdict_store import RunVerdict, RunVerdicts, dumped, loaded, plain_reason


@pytest.fixture(scope="module")
def runs() -> list[Scorecard]:
    return recorded_scorecards("pydantic-ai")


def verdict(run: Scorecard, *, is_good: bool = False, source: str = "web view", at: int = 1) -> RunVerdict:
    return RunVerdict.on(run.trajectory, "good" if is_good else "bad", "", source, at)


def numbered(number: int, source: str = "web view") -> RunVerdict:
    trace_id = f"{number:032x}"
    return RunVerdict(id=trace_id, trace_id=trace_id, conversation_id=None, label="bad", source=source, given_ns=number)


@pytest.mark.parametrize("framework", ["pydantic-ai", "openinference-smolagents-code", "gemini-cli", "uipath"])
def test_a_scorecard_that_is_read_again_is_the_same(framework: str):
    for scorecard in recorded_scorecards(framework):
        saved = dumped(scorecard)
        assert saved is not None
        found = loaded(saved)
        assert found.trajectory == scorecard.trajectory
        assert [replace(one, finding=None) for one in scorecard.results] == list(found.results)
        # Results of one call still share it, and equal findings are one object.
        assert list(found.verdicts) == list(scorecard.verdicts)
        assert type(found.trajectory.tools_offered) is type(scorecard.trajectory.tools_offered)


@pytest.mark.parametrize("value", ["\ud800", 10**30], ids=["half a character", "a number of thirty digits"])
def test_a_run_that_cannot_be_written_leaves_the_verdict(runs: list[Scorecard], value: Json):
    run = with_arguments(runs[0], {"a": value})
    assert dumped(run) is None
    verdicts = RunVerdicts()
    verdicts.give(verdict(run), run)
    assert len(verdicts.newest()) == 1
    assert verdicts.runs() == []


def test_values_that_are_nested_deep_leave_the_verdict(runs: list[Scorecard]):
    deep: Json = 1
    for _ in range(20_000):
        deep = [deep]
    assert dumped(with_arguments(runs[0], {"a": deep})) is None


def with_arguments(run: Scorecard, arguments: dict[str, Json]) -> Scorecard:
    first, *rest = run.trajectory.calls
    calls = (replace(first, arguments=Recorded(arguments)), *rest)
    return Scorecard(trajectory=replace(run.trajectory, calls=calls), results=(), scored_at_ns=1)


def test_the_oldest_verdicts_of_others_give_way_first():
    verdicts = RunVerdicts(max_verdicts=3)
    for number, source in enumerate(("web view", "thumbs", "toolgauge.mark", "thumbs", "thumbs")):
        verdicts.give(numbered(number, source), None)
    assert [(int(one.id, 16), one.source) for one in verdicts.newest()] == [
        (4, "thumbs"),
        (2, "toolgauge.mark"),
        (0, "web view"),
    ]
    verdicts.give(numbered(5), None)
    verdicts.give(numbered(6), None)
    assert [int(one.id, 16) for one in verdicts.newest()] == [6, 5, 2]


def test_scorecards_without_room_go_and_their_verdicts_stay(tmp_path: Path, runs: list[Scorecard]):
    first, second, third = runs[:3]
    room = sum(len(dumped(run) or b"") for run in (second, third))
    store = StateStore(tmp_path)
    verdicts = RunVerdicts(max_bytes=room)
    verdicts.restore(store)
    for at, run in enumerate((first, second, third)):
        verdicts.give(verdict(run, at=at), run)
    kept = [second.trajectory.trace_id, third.trajectory.trace_id]
    assert sorted(one.trace_id or "" for one, _ in verdicts.runs()) == sorted(kept)
    # A change of mind keeps the scorecard, where the page of the run is gone.
    verdicts.give(verdict(second, is_good=True, at=4), None)
    store.close()
    store = StateStore(tmp_path)
    again = RunVerdicts(max_bytes=room)
    again.restore(store)
    store.close()
    assert [one.trace_id for one in again.newest()] == [run.trajectory.trace_id for run in (second, third, first)]
    assert [(one.is_good, run.trajectory) for one, run in again.runs()] == [
        (True, second.trajectory),
        (False, third.trajectory),
    ]


def test_a_damaged_verdict_is_dropped_and_logged_and_the_next_one_heals_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    store = StateStore(tmp_path)
    verdicts = RunVerdicts()
    verdicts.restore(store)
    for number in range(4):
        verdicts.give(numbered(number), None)
    store.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        other = msgspec.msgpack.encode(replace(numbered(0), label="good"))
        connection.execute("UPDATE verdicts SET verdict = ? WHERE id LIKE '%0'", (other,))
        connection.execute("UPDATE verdicts SET verdict = 7 WHERE id LIKE '%1'")
        connection.execute("UPDATE verdicts SET scorecard = x'c1' WHERE id LIKE '%2'")
    connection.close()
    store = StateStore(tmp_path)
    again = RunVerdicts()
    again.restore(store)
    assert [one.id for one in again.newest()] == [numbered(3).id]
    assert "dropped 3 damaged verdicts" in caplog.text
    again.give(numbered(9), None)
    assert stored(store) == [numbered(3).id, numbered(9).id]
    # The journal puts a damaged file aside, and begins an empty one.
    store.begin_again("damaged", 0)
    again.give(numbered(10), None)
    assert stored(store) == [numbered(number).id for number in (3, 9, 10)]
    store.close()


def stored(store: StateStore) -> list[str]:
    with store.reading() as connection:
        return [row[0] for row in connection.execute("SELECT id FROM verdicts ORDER BY id").fetchall()]


def test_the_file_of_labels_is_read_by_learn_and_harmless_in_a_spreadsheet(tmp_path: Path, runs: list[Scorecard]):
    conversation = replace(runs[1].trajectory, scope="conversation", conversation_id="c-1")
    verdicts = RunVerdicts()
    given = replace(verdict(runs[0]), reason='=HYPERLINK("http://evil.example")', source="@thumbs")
    verdicts.give(given, None)
    verdicts.give(RunVerdict.on(conversation, "good", "a, b", "mark", 10**18), None)
    file = tmp_path / "verdicts.csv"
    file.write_text(verdicts.as_csv())
    assert read_labels(file).verdicts == {
        Labelled(is_conversation=False, id=runs[0].trajectory.trace_id): False,
        Labelled(is_conversation=True, id="c-1"): True,
    }
    assert verdicts.as_csv().splitlines()[1] == ',c-1,good,"a, b",mark,2001-09-09T01:46:40Z'
    assert """"'=HYPERLINK(""http://evil.example"")",'@thumbs""" in verdicts.as_csv()


def test_a_verdict_on_a_conversation_is_on_all_of_its_runs(runs: list[Scorecard]):
    one, two = (
        Scorecard(trajectory=replace(run.trajectory, conversation_id="c-1"), results=(), scored_at_ns=1)
        for run in runs[:2]
    )
    verdicts = RunVerdicts()
    verdicts.hear(Feedback(name="thumbs", label="down", conversation_id="c-1", reason="late"))
    assert verdicts.settle([], 5) == []
    assert len(verdicts.heard) == 1
    verdicts.settle([one, two], 6)
    assert {each.id for each in verdicts.newest()} == {one.trajectory.trace_id, two.trajectory.trace_id}
    assert {(each.is_good, each.reason, each.source) for each in verdicts.newest()} == {(False, "late", "thumbs")}
    assert len(verdicts.heard) == 0


def test_verdicts_on_unknown_runs_wait_in_a_bounded_number():
    verdicts = RunVerdicts(max_verdicts=10)
    for number in range(25):
        verdicts.hear(Feedback(name="thumbs", label=True, trace_id=f"{number:032x}"))
    verdicts.hear(Feedback(name="thumbs", label=True, conversation_id="x" * 10_000))
    verdicts.hear(Feedback(name="stars", value=4.0, trace_id="1" * 32))
    assert (len(verdicts.heard), verdicts.unmatched) == (10, 16)


def test_a_reason_is_one_short_line():
    assert plain_reason(" a\nb\x1b[31m\u202e\ud800 c\t") == "a b [31m c"
    assert len(plain_reason("x" * 500)) == 200
