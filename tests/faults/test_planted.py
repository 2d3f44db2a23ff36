"""Planted faults: each can be planted, and the tests of its room find one for example."""

from pathlib import Path

import pytest

from tests.faults.__main__ import copy_tree, look_for
from tests.faults.planted import PACKAGE, Fault, planted_faults

ROOT = Path(__file__).resolve().parents[2]


def test_each_fault_changes_one_place_of_the_tree(tmp_path: Path):
    for fault in planted_faults():
        (tmp_path / fault.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / fault.path).write_text((ROOT / fault.path).read_text())
        sound = fault.plant(tmp_path)
        assert (tmp_path / fault.path).read_text() != sound, fault
        compile((tmp_path / fault.path).read_text(), fault.file, "exec")


def test_every_room_has_a_fault():
    rooms = {path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py")}
    assert rooms <= {fault.room for fault in planted_faults()}


def test_a_fault_that_no_longer_fits_is_named(tmp_path: Path):
    (tmp_path / PACKAGE / "net").mkdir(parents=True)
    (tmp_path / PACKAGE / "net" / "auth.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"`net/auth\.py` has 0 times, not once: y = 2"):
        Fault(what="", file="net/auth.py", old="y = 2", new="").plant(tmp_path)


def test_the_tests_of_a_room_find_a_fault_in_a_copy(tmp_path: Path):
    (fault,) = [one for one in planted_faults() if one.file == "net/auth.py"]
    copy = copy_tree(tmp_path / "copy")
    found = look_for(fault, copy)
    assert found.test is not None
    assert found.test.startswith("tests/net/")
    assert (copy / fault.path).read_text() == (ROOT / fault.path).read_text()
