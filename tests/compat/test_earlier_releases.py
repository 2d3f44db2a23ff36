"""Files of each earlier release load, its state directory goes on, and no name that users rely on has gone."""

import json
import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.compat.freeze import runs
from tests.compat.names import current, frozen, readers
from tests.wire.destination import receiving
from tests.wire.support import serving, to_grpc, until_equal
from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.service.configuration import load_configuration
from toolgauge.service.criteria_factory import default_criteria
from tools.release import ROOT

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if (path / "state.zip").exists())
SPANS = 3


@pytest.fixture(params=RELEASES, ids=lambda release: release.name)
def release(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_names_that_users_rely_on_are_still_there():
    gone = sorted(frozen() - current())
    assert gone == [], (
        "names of an earlier release have gone: keep each as a deprecated alias, as `docs/deploying.md` has it; one whose"
        " deprecation is over is taken out of `tests/compat/names.txt` by hand, with a line under Removed in `CHANGELOG.md`"
    )


def test_every_reader_that_the_page_offers_to_dialects_is_there():
    offered = [*readers()]
    assert {"messages", "conventions", "provider_messages", "values"} <= {module for module, _ in offered}
    modules = {module: import_module(f"toolgauge.recognize.{module}") for module, _ in offered}
    assert [(module, name) for module, name in offered if not hasattr(modules[module], name)] == []


def test_there_is_a_set_of_the_first_release_and_all_of_them_are_small():
    assert "0.1.0" in [release.name for release in RELEASES]
    files = [path for release in RELEASES for path in release.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000


def test_its_configuration_loads_with_every_criterion(release: Path):
    _, criteria = load_configuration([str(release / "toolgauge.yaml")], [])
    assert [criterion.name for criterion in criteria if not criterion.name.startswith("default.")] == [
        "refund-arguments",
        "nightly-cases",
        "trip-tools",
        "weather-answer",
    ]


def test_the_changelog_names_each_default_criterion_whose_baselines_begin_anew():
    newest = max(RELEASES, key=lambda folder: [int(part) for part in folder.name.split(".")])
    before = json.loads((newest / "revisions.json").read_text())
    now = {criterion.name: criterion.revision for criterion in default_criteria()}
    changed = {name for name in before.keys() & now if before[name] != now[name]}
    section = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    entry = next((one for one in section.split("\n- ") if one.startswith("New revisions, which learn")), "")
    assert changed <= set(re.findall("`([^`]*)`", entry)), "name them in the entry `New revisions` of `CHANGELOG.md`"


def test_its_printed_defaults_load(release: Path):
    assert isinstance(load([release / "defaults.yaml"], (), {}), Config)


def test_its_recording_is_scored(release: Path):
    replayed = run("replay", "--json", "--criteria", str(release / "criteria.yaml"), str(release / "run.otlp"))
    assert replayed.code == 0, replayed.err
    results = [json.loads(line) for line in replayed.out.splitlines()]
    assert ("default.tool_success", "fail") in {(one["criterion"], one["outcome"]) for one in results}


def test_its_state_directory_goes_on_where_it_was_killed(release: Path, tmp_path: Path):
    shutil.unpack_archive(release / "state.zip", tmp_path)
    delivered, _, _, rest = runs()
    settings = (
        f"state.directory={tmp_path / 'state'}",
        # Any age of the set: nothing closes because time has passed.
        "assemble.idle_timeout=87000h",
        "assemble.open_idle_timeout=87000h",
    )
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port), *settings) as toolgauge:
        # The run that was not delivered, and its scorecard; the first span of the open run.
        until_equal(lambda: len(destination.spans()), SPANS + 1, "the spans in the journal")
        until_equal(lambda: len(destination.scorecards()), 1, "the scorecard in the journal")
        toolgauge.send(rest)
        until_equal(lambda: len(destination.scorecards()), 2, "the scorecard of the open run")
        scored = toolgauge.total("toolgauge_trajectories_total")
        toolgauge.send(delivered)
        until_equal(lambda: len(destination.spans()), 3 * SPANS, "the spans of the known run")
        assert toolgauge.total("toolgauge_trajectories_total") == scored
        assert toolgauge.total("toolgauge_state_unreadable_total") == 0
    assert len(destination.scorecards()) == 2
