"""A change of a file is noticed once, when it is complete."""

import os
from functools import partial
from pathlib import Path

from tests.config.files import write
from toolgauge.config.load import find_sources
from toolgauge.service.reload import ConfigWatch


def watching(*paths: Path) -> ConfigWatch:
    return ConfigWatch(partial(find_sources, paths, (), {}))


def rewrite(path: Path, text: str) -> None:
    """Write a file in place, with a time of change that differs however coarse the clock of the file system is."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def test_a_change_is_noticed_once_and_at_the_second_look(tmp_path: Path):
    file = write(tmp_path / "a.yaml", "annotate: both\n")
    watch = watching(file)
    assert watch.look() == ()
    rewrite(file, "annotate: off\n")
    assert [watch.look() for _ in range(4)] == [(), (file,), (), ()]


def test_a_file_that_is_being_written_waits(tmp_path: Path):
    file = write(tmp_path / "a.yaml", "annotate: both\n")
    watch = watching(file)
    seen: list[tuple[Path, ...]] = []
    for text in ("ann", "annotate: o", "annotate: off\n"):
        rewrite(file, text)
        seen.append(watch.look())
    assert [*seen, watch.look(), watch.look()] == [(), (), (), (file,), ()]


def test_what_changed_between_start_and_first_look_is_noticed(tmp_path: Path):
    file = write(tmp_path / "a.yaml", "annotate: both\n")
    watch = watching(file)
    rewrite(file, "annotate: off\n")
    assert [watch.look(), watch.look()] == [(), (file,)]


def test_a_file_that_goes_is_noticed_and_so_is_one_that_comes(tmp_path: Path):
    file = write(tmp_path / "a.yaml", "criteria_files: ['c/*.yaml']\n")
    first = write(tmp_path / "c/1.yaml", "[]")
    watch = watching(file)
    second = write(tmp_path / "c/2.yaml", "[]")
    assert [watch.look(), watch.look()] == [(), (second,)]
    first.unlink()
    assert [watch.look(), watch.look(), watch.look()] == [(), (first,), ()]


def test_a_file_that_a_new_configuration_names_is_watched_also_when_it_is_wrong(tmp_path: Path):
    file = write(tmp_path / "a.yaml", "annotate: both\n")
    watch = watching(file)
    criteria = write(tmp_path / "c.yaml", "criteria: [{name: a, reference: {file: cases.jsonl}}, {}]\n")
    cases = write(tmp_path / "cases.jsonl", "{")
    rewrite(file, "criteria_files: [c.yaml]\n")
    assert [watch.look(), watch.look(), watch.look()] == [(), (file,), ()]
    rewrite(cases, "{}")
    assert [watch.look(), watch.look(), watch.look()] == [(), (cases,), ()]
    rewrite(criteria, "criteria: []\n")
    assert [watch.look(), watch.look(), watch.look()] == [(), (criteria,), ()]
