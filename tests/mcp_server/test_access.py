"""A client has read what was given, and nothing else; nothing is ever written."""

import os
from pathlib import Path

import pytest

from tests.mcp_server.support import SHOWN, Called, client, error_of, trace_id, write_runs
from toolgauge.mcp_server.readable_files import ReadableFiles

RUN = [Called(tool="find", arguments={"id": 1})]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories with a recording each: one is given, one is not."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for place in (inside, outside):
        place.mkdir()
        write_runs(place / "runs.jsonl", [RUN])
    return inside, outside


async def test_paths_outside_are_refused_alike_whether_or_not_they_exist(places: tuple[Path, Path]):
    inside, outside = places
    (inside / "link.jsonl").symlink_to(outside / "runs.jsonl")
    (inside / "elsewhere").symlink_to(outside)
    (inside / "round").symlink_to(inside / "round")
    async with client(inside) as asked:
        for path in (
            str(outside / "runs.jsonl"),
            str(outside / "nothing.jsonl"),
            str(inside / ".." / "outside" / "runs.jsonl"),
            str(inside / "link.jsonl"),
            str(inside / "elsewhere" / "runs.jsonl"),
            "/etc/passwd",
        ):
            error, hint = error_of(await asked.call_tool("list_trajectories", {"recording": path}))
            assert error == f"error: `{path}` is outside of what may be read here"
            assert hint.startswith(f"hint: that is `{inside}`; ")
        for path in ("a\0b", str(inside / "round"), "x" * 5_000):
            assert (await asked.call_tool("list_trajectories", {"recording": path})).is_error
        labels = await asked.call_tool("suggest_criteria", {"labels": str(outside / "labels.csv")})
        baseline = {"baseline": str(inside), "candidate": str(outside)}
        compared = await asked.call_tool("compare_recordings", baseline)
    assert error_of(labels)[0].endswith("is outside of what may be read here")
    assert error_of(compared)[0].endswith("is outside of what may be read here")


async def test_what_a_link_in_a_directory_leads_to_is_not_read(places: tuple[Path, Path]):
    inside, outside = places
    write_runs(outside / "more.jsonl", [RUN], first=7)
    (inside / "link.jsonl").symlink_to(outside / "more.jsonl")
    async with client(inside) as asked:
        answer = await asked.call_tool("list_trajectories")
        recordings = await asked.call_tool("list_recordings")
    assert [one["id"] for one in answer.structured_content["trajectories"]] == [trace_id(0)]
    assert [one["recording"] for one in recordings.structured_content["recordings"]] == [str(inside / "runs.jsonl")]


async def test_a_pipe_is_not_opened(places: tuple[Path, Path]):
    inside, _ = places
    os.mkfifo(inside / "pipe.otlp")
    async with client(inside) as asked:
        named = await asked.call_tool("list_trajectories", {"recording": str(inside / "pipe.otlp")})
        all_of_it = await asked.call_tool("list_trajectories")
    assert error_of(named)[0] == f"error: no recording in `{inside / 'pipe.otlp'}`"
    assert all_of_it.structured_content["trajectories_total"] == 1


async def test_a_file_that_is_given_makes_its_neighbours_readable_to_nobody(places: tuple[Path, Path]):
    inside, _ = places
    write_runs(inside / "other.jsonl", [RUN])
    async with client(inside / "runs.jsonl") as asked:
        other = await asked.call_tool("list_trajectories", {"recording": str(inside / "other.jsonl")})
        given = await asked.call_tool("list_trajectories", {"recording": str(inside / "runs.jsonl")})
    assert error_of(other)[0].endswith("is outside of what may be read here")
    assert given.structured_content["trajectories_total"] == 1


async def test_without_anything_given_it_is_the_current_directory(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    inside, _ = places
    monkeypatch.chdir(inside)
    async with client() as asked:
        unnamed = await asked.call_tool("list_trajectories")
        named = await asked.call_tool("list_trajectories", {"recording": "runs.jsonl"})
        beside = await asked.call_tool("list_trajectories", {"recording": "../outside/runs.jsonl"})
    assert error_of(unnamed) == ["error: no recording is named", "hint: there is `runs.jsonl`"]
    assert named.structured_content["trajectories_total"] == 1
    assert error_of(beside)[0] == "error: `../outside/runs.jsonl` is outside of what may be read here"


async def test_a_file_that_is_no_recording_is_named_and_not_quoted(places: tuple[Path, Path]):
    inside, _ = places
    (inside / "secrets.json").write_text('{"password": "hunter2", "list": [1, 2')
    async with client(inside) as asked:
        answer = await asked.call_tool("list_trajectories", {"recording": str(inside / "secrets.json")})
        missing = await asked.call_tool("list_trajectories", {"recording": str(inside / "run.jsonl")})
    assert "line 1: not OTLP JSON" in error_of(answer)[0]
    assert "hunter2" not in " ".join(error_of(answer))
    assert error_of(missing)[1] == f"hint: there is `{inside / 'runs.jsonl'}`"


def test_recordings_beyond_the_newest_that_are_listed_are_counted(tmp_path: Path):
    for number in range(203):
        (tmp_path / f"{number}.otlp.pb").write_bytes(b"x")
    found, more = ReadableFiles((str(tmp_path),)).newest()
    assert (len(found), more) == (200, 3)


async def test_criteria_are_suggested_and_nothing_is_written(tmp_path: Path):
    runs = [[Called(tool="find", arguments={"id": number}), Called(tool="create_order", arguments={"count": 2})] for number in range(30)]  # fmt: skip
    write_runs(tmp_path / "runs.jsonl", runs)
    async with client(tmp_path) as asked:
        learned = await asked.call_tool("suggest_criteria")
        hidden = await asked.call_tool("suggest_criteria", {"passed": [trace_id(0)]})
    async with client(tmp_path, overrides=SHOWN) as asked:
        expected = await asked.call_tool("suggest_criteria", {"passed": [trace_id(0), trace_id(1)]})
    assert learned.structured_content["criteria"] > 0
    assert "- name: " in learned.structured_content["yaml"]
    assert error_of(hidden)[0] == "error: a reference is made of the values of a run, and values are hidden"
    assert "- name: create_order" in expected.structured_content["yaml"]
    assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]
