"""The page of what is under way outlives the process, and counts what ended it."""

from pathlib import Path

import pytest

from toolgauge.state.under_way import FILE_NAME, UnderWay

DAY_NS = 24 * 3600 * 1_000_000_000
RUN = "0af7651916cd43dd8448eb211c80319c"


def ended_at(directory: Path, run: str, criterion: str, *, times: int, now_ns: int = 0) -> UnderWay:
    for _ in range(times):
        UnderWay(directory, now_ns).evaluates(run, criterion)
    return UnderWay(directory, now_ns)


def test_a_process_that_was_idle_at_its_end_leaves_nothing(tmp_path: Path):
    page = UnderWay(tmp_path, 0)
    page.evaluates(RUN, "slow")
    page.rests()
    later = UnderWay(tmp_path, 0)
    assert not later.has_ended
    assert not later.ended_by


def test_what_ended_the_process_once_is_tried_again_and_twice_is_not(tmp_path: Path):
    once = ended_at(tmp_path, RUN, "deadly", times=1)
    assert once.has_ended
    assert not once.ended_by
    once.evaluates(RUN, "deadly")
    assert UnderWay(tmp_path, 0).ended_by == {(RUN, "deadly"): 2}


def test_a_criterion_that_ended_it_four_times_is_tried_on_no_run(tmp_path: Path):
    for number in range(4):
        ended_at(tmp_path, f"run-{number}", "deadly", times=1)
    assert UnderWay(tmp_path, 0).ended_by == {("", "deadly"): 4}


def test_requests_are_counted_apart(tmp_path: Path):
    for _ in range(2):
        UnderWay(tmp_path, 0).reads(7)
    page = UnderWay(tmp_path, 0)
    assert page.was_end_of(7)
    assert not page.was_end_of(8)
    assert not page.ended_by


def test_after_a_day_it_is_forgotten(tmp_path: Path):
    assert ended_at(tmp_path, RUN, "deadly", times=2).ended_by
    assert not UnderWay(tmp_path, DAY_NS + 1).ended_by


def test_a_page_of_any_bytes_is_a_page(tmp_path: Path):
    for content in (b"", b"\x01" * 100_000, b"\xff" * 1000, bytes(range(256)) * 300):
        (tmp_path / FILE_NAME).write_bytes(content)
        page = UnderWay(tmp_path, 0)
        page.evaluates("n" * 10_000, "\ud800" * 300)
        assert UnderWay(tmp_path, 0).has_ended


def test_thousands_of_ends_take_no_more_than_the_page(tmp_path: Path):
    for number in range(200):
        ended_at(tmp_path, f"{number}-" + "r" * 300, f"{number % 7}-" + "c" * 300, times=1)
    assert (tmp_path / FILE_NAME).stat().st_size == 64 * 1024


def test_a_link_in_its_place_is_not_followed(tmp_path: Path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        UnderWay(tmp_path, 0)
    assert (tmp_path / "elsewhere").read_text() == "mine"
