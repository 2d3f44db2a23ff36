"""Make the set of files of one release that later releases have to load: `python -m tests.compat.freeze`, at each release.

`tests/compat/<version>/` holds a configuration with criteria and cases, the revisions of the default criteria, a recording that `toolgauge record` wrote, and the state
directory of a `toolgauge serve` that was killed: a run was delivered, another was scored and not delivered, and one was open.
Files of earlier versions stay as they are. Reserved room is left out: it holds nothing.
"""

import json
import shutil
import signal
import tempfile
from pathlib import Path

from tests.wire.destination import receiving
from tests.wire.support import free_port, post, recorded, serving, to_grpc, until
from tests.wire.test_journal_restart import in_two
from tests.wire.test_record import Recording
from tests.wire.test_reload import other_trace
from toolgauge.config.load import shown
from toolgauge.config.model import Config
from toolgauge.service.criteria_factory import default_criteria
from tools.release import ROOT, version

EXAMPLES = ROOT / "examples"
DELIVERED, WHOLE, OPEN = 1, 2, 3


def runs() -> tuple[bytes, bytes, bytes, bytes]:
    """Return a run that was delivered, one that was not, the first span of an open run, and the others of it."""
    (original,) = recorded("pydantic-ai", "tool_error")
    return (other_trace(original, DELIVERED), other_trace(original, WHOLE), *in_two(other_trace(original, OPEN)))


def freeze_state(folder: Path, logs: Path) -> None:
    """Leave in `folder` what a process that is killed leaves in its state directory, after one that ended in order."""
    delivered, whole, first, _ = runs()
    settings = (f"state.directory={folder}", "assemble.idle_timeout=1h", "assemble.open_idle_timeout=1h")
    with receiving() as destination, serving(logs, to_grpc(destination.grpc_port), *settings) as toolgauge:
        toolgauge.send(delivered)
        until(lambda: len(destination.scorecards()) == 1, "the scorecard")
    with serving(logs, to_grpc(free_port()), *settings) as toolgauge:
        toolgauge.send(whole)
        until(lambda: toolgauge.total("toolgauge_trajectories_total") == 1, "the run to be scored")
        toolgauge.send(first)
        until(lambda: toolgauge.total("toolgauge_traces_open") == 1, "the open run")
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()


def freeze_recording(file: Path, logs: Path) -> None:
    """Record the whole run with `toolgauge record`."""
    recording = Recording(logs, file).wait_until_up()
    assert post(recording.port, runs()[0])[0] == 200
    recording.signal()
    assert recording.ended() == 0, recording.said()
    recording.close()


def main() -> None:
    """Write the folder of the version of the tree."""
    folder = Path(__file__).parent / version(ROOT)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("toolgauge.yaml", "criteria.yaml", "cases.jsonl"):
        if (EXAMPLES / name).exists():
            shutil.copy(EXAMPLES / name, folder)
    (folder / "defaults.yaml").write_text(shown(Config()))
    revisions = {criterion.name: criterion.revision for criterion in default_criteria()}
    (folder / "revisions.json").write_text(json.dumps(revisions, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as made:
        freeze_recording(folder / "run.otlp", Path(made))
        freeze_state(Path(made) / "state", Path(made))
        (Path(made) / "state" / "toolgauge.reserve").unlink()
        shutil.make_archive(str(folder / "state"), "zip", made, "state")


if __name__ == "__main__":
    main()
