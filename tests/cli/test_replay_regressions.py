"""`replay` looks for drops as live traffic would have shown them."""

import json
from pathlib import Path

from tests.cli.command import run, unbroken
from tests.recordings.recordings import GOOD, START_NS, WORSE, written


def test_a_drop_is_announced_beside_the_results(tmp_path: Path):
    file = written(tmp_path / "recorded.otlp", GOOD, 250, seed=1)
    written(file, WORSE, 60, seed=2, start_ns=START_NS + 10**14)
    ended = run("replay", str(file), "--json")
    assert ended.code == 0
    announced = [line for line in unbroken(ended.err).splitlines() if line.startswith("regression: ")]
    # One line begins the incident.
    (first,) = (line for line in announced if not line.startswith("regression: in the same incident, "))
    assert first == announced[0]
    assert any(
        "`default.tool_success` of `list_orders` fell from " in line
        and "; `service.version` changed from `1.0` to `1.1` at " in line
        for line in announced
    )
    assert all(json.loads(line)["outcome"] != "error" for line in ended.out.splitlines())


def test_without_a_drop_none_is_announced(tmp_path: Path):
    ended = run("replay", str(written(tmp_path / "recorded.otlp", GOOD, 30, seed=1)))
    assert (ended.code, "regression: " in ended.err) == (0, False)
