"""Commands end in order whatever an evaluator of a file does: with a whole report, or with an exit code that says so."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Ended, run
from tests.walk.support import CORPUS

RECORDING = CORPUS / "pydantic-ai" / "tool_error.otlp.pb"
EVALUATOR = """
import os, signal, subprocess, sys, threading, time
from toolgauge import Scored
{top}

class Bad:
    version = "1"
    level = "trajectory"

    def evaluate(self, trajectory, expected):
        {act}
        yield None, Scored(1.0, "fine")
"""
BAD = '- {name: bad, evaluator: "./bad.py:Bad"}\n'
OTHER = "- {name: other, evaluator: tool_success}\n"


def replay(folder: Path, act: str = "pass", *options: str, top: str = "", criteria: str = BAD + OTHER) -> Ended:
    (folder / "bad.py").write_text(EVALUATOR.format(act=act, top=top))
    (folder / "criteria.yaml").write_text(criteria)
    command, *others = options or ("check", "--fail-on", "nothing", "--json")
    scored = ("--criteria", "criteria.yaml", "--set", "defaults.enabled=false")
    return run(command, *others, *scored, str(RECORDING), cwd=folder)


def words(ended: Ended) -> dict[str, str]:
    """The outcomes by criterion."""
    found = [json.loads(line) for line in ended.out.splitlines()]
    return {one["criterion"]: one["reason"] if one["outcome"] == "error" else one["outcome"] for one in found}


PRINTS = {
    "print": "print('garbage')",
    "raw": "os.write(1, b'garbage')",
    "buffer": "sys.stdout.buffer.write(b'garbage'); sys.stdout.flush()",
    "process": "subprocess.run(['echo', 'garbage'], check=True)",
    "process with our stream": "subprocess.run(['echo', 'garbage'], stdout=sys.stdout, check=True)",
}


@pytest.mark.parametrize("act", PRINTS.values(), ids=PRINTS)
@pytest.mark.parametrize("place", ["at import", "in an evaluation"])
def test_what_a_plug_in_prints_goes_to_standard_error(act: str, place: str, tmp_path: Path):
    ended = replay(tmp_path, top=act) if place == "at import" else replay(tmp_path, act)
    assert words(ended) == {"bad": "pass", "other": "fail"}
    assert "garbage" in ended.err


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("raise SystemExit(0)", "SystemExit"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_an_evaluator_costs_its_own_score_alone(act: str, reason: str, tmp_path: Path):
    assert words(replay(tmp_path, act)) == {"bad": reason, "other": "fail"}


@pytest.mark.parametrize("error", ["SystemExit(0)", "GeneratorExit", "BaseException"])
def test_a_file_that_ends_the_process_as_it_is_loaded_is_a_bad_configuration(error: str, tmp_path: Path):
    ended = replay(tmp_path, top=f"raise {error}")
    assert (ended.code, ended.out) == (2, "")
    assert "cannot load `bad.py`: line 4" in ended.err


def test_an_evaluation_that_ends_the_command_by_itself_makes_it_fail(tmp_path: Path):
    # Not caught where it is loaded: a class is asked for its members.
    top = "class Raises(type):\n    @property\n    def level(cls):\n        raise SystemExit(0)\n"
    (tmp_path / "bad.py").write_text(
        f"{top}\nclass Bad(metaclass=Raises):\n    version = '1'\n    @property\n"
        "    def level(self):\n        raise SystemExit(0)\n    def evaluate(self, t, e):\n        yield None\n"
    )
    (tmp_path / "criteria.yaml").write_text(BAD)
    ended = run("check", "--fail-on", "nothing", "--criteria", "criteria.yaml", str(RECORDING), cwd=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "code of a plug-in tried to end this command" in ended.err
