"""All captured frameworks through `toolgauge inspect`: the calls that were really made, but for named misses."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "scripts" / "corpus_check.py"
CORPUS = Path(__file__).parent / "corpus"

# Folder and scenario of each trace that does not come out exactly, and why.
MISSES = {
    "autogen-native handoff": (
        "AutoGen's runtime records no arguments and writes the hand-off tool's span in a trace of its own, beside the "
        "trace in which the model asked for it"
    ),
}
_MISS = re.compile(r"^   (\S+) (\S+) [0-9a-f]{8} (?:extra|missing|wrong)", re.MULTILINE)
_FIELD = re.compile(r"^field (\w+): \d+/\d+ = ([\d.]+)", re.MULTILINE)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="as recorded"),
        pytest.param(("--scramble", "1"), id="tools renamed", marks=pytest.mark.long),
    ],
)
def test_the_calls_that_were_made_are_found_in_every_capture(options: tuple[str, ...]):
    command = [sys.executable, str(TOOL), str(CORPUS), "--cmd", f"{sys.executable} -m toolgauge", "--verbose", *options]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert {f"{folder} {scenario}" for folder, scenario in _MISS.findall(checked.stdout)} == set(MISSES)
    fields = {name: float(share) for name, share in _FIELD.findall(checked.stdout)}
    assert set(fields) == {"call_id", "conversation", "executed", "failed"}
    assert [name for name, share in fields.items() if share < 0.97] == []
    assert checked.returncode == 0
