"""The file of adopted criteria: it is read with the configuration, and people may edit it."""

import stat
from pathlib import Path

import pytest

from toolgauge.authoring.adopted import adopted, take_step
from toolgauge.model.errors import ConfigError
from toolgauge.service.configuration import load_configuration

ENTRY = """\
- name: learned.refund_order.before
  evaluator: order_rules
  enforce: shadow
  rules:
    - {before: refund_order, call: find_order}  # in 20 of 20 good runs
"""
NAME = "learned.refund_order.before"


def written(directory: Path) -> list[tuple[str, str]]:
    """Load a configuration with this state directory, and name its criteria that are no default ones."""
    _, criteria = load_configuration((), [f"state.directory={directory}"])
    return [(one.name, one.enforce) for one in criteria if not one.is_default]


def test_an_adopted_criterion_is_in_the_shadow_at_first(tmp_path: Path) -> None:
    path = take_step(tmp_path, NAME, "shadow", ENTRY)
    assert path == tmp_path / "learned.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert adopted(tmp_path) == {NAME: "shadow"}
    assert written(tmp_path) == [(NAME, "shadow")]


def test_a_second_step_makes_it_live_and_a_third_takes_it_away(tmp_path: Path) -> None:
    take_step(tmp_path, NAME, "shadow", ENTRY)
    take_step(tmp_path, "learned.other", "shadow", ENTRY.replace(NAME, "learned.other"))
    take_step(tmp_path, NAME, "live")
    assert adopted(tmp_path) == {NAME: "live", "learned.other": "shadow"}
    assert written(tmp_path) == [(NAME, "live"), ("learned.other", "shadow")]
    take_step(tmp_path, NAME, "drop")
    take_step(tmp_path, "learned.other", "drop")
    assert (adopted(tmp_path), written(tmp_path)) == ({}, [])


def test_what_people_wrote_within_an_entry_stays(tmp_path: Path) -> None:
    path = take_step(tmp_path, NAME, "shadow", ENTRY)
    path.write_text(path.read_text() + "  when: {service: shop}  # ours alone\n- {name: mine, evaluator: known_tool}\n")
    take_step(tmp_path, NAME, "live")
    assert "when: {service: shop}  # ours alone" in path.read_text()
    assert "# in 20 of 20 good runs" in path.read_text()
    assert adopted(tmp_path) == {NAME: "live", "mine": "live"}


def test_a_criterion_that_nobody_adopted_takes_no_step(tmp_path: Path) -> None:
    take_step(tmp_path, NAME, "live")
    take_step(tmp_path, NAME, "drop")
    assert adopted(tmp_path) == {}


def test_a_file_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "learned.yaml").write_text("criteria:\n- name: [\n")
    with pytest.raises(ConfigError, match=r"learned\.yaml"):
        adopted(tmp_path)


@pytest.mark.parametrize("text", ["criteria: []\ntools: {}\n", "criteria: [{name: a}, {name: b}]\n"])
def test_a_file_of_another_form_is_left_to_the_person_who_wrote_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "learned.yaml").write_text(text)
    with pytest.raises(ConfigError, match="by hand"):
        take_step(tmp_path, NAME, "shadow", ENTRY)
    assert (tmp_path / "learned.yaml").read_text() == text


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*learned\.yaml"):
        take_step(tmp_path / "missing", NAME, "shadow", ENTRY)
