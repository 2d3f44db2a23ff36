"""Each command line of README and pages works for a reader who follows the page from top to bottom."""

import shutil
from pathlib import Path

import pytest

from tests.command_screens import printed
from tests.page_commands import PAGES, Command, File, steps
from tests.page_reader import reading
from tests.wire.destination import receiving

STEPS = {page: [*steps(text)] for page, text in PAGES.items()}
RUN = {
    page: [step for step in found if isinstance(step, Command) and step.not_run is None]
    for page, found in STEPS.items()
}
# Programs of others: their commands are run where they are installed.
OPTIONAL = ("amtool", "promtool")


# Rule: every command line works as it stands on its page, or a comment above it says why it is not run.
@pytest.mark.parametrize("page", [page for page, found in RUN.items() if any(step.screen is None for step in found)])
def test_every_command_line_of_a_page_works_or_says_why_it_is_not_run(page: str, tmp_path: Path):
    files = {step.name: step.text for step in STEPS[page] if isinstance(step, File)}
    failed: list[str] = []
    with receiving() as collector, reading(tmp_path, collector.grpc_port, files) as reader:
        for step in RUN[page]:
            if step.screen is None and is_run_here(step.text):
                code, output = reader.run(step)
                if code != step.exit_code:
                    failed.append(f"{page}:{step.line}: `{step.text}` ended with {code}:\n{output[-2000:]}")
        code, output = reader.close()
        if code:
            failed.append(f"{page}: the last command that runs on ended with {code}:\n{output[-2000:]}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("page", [page for page, found in RUN.items() if any(step.screen for step in found)])
def test_a_screen_on_a_page_is_what_its_command_prints(page: str):
    """When it is not on the page of commands: run `python -m tests.command_screens --write`."""
    screens = {step.text: step.screen for step in RUN[page] if step.screen is not None}
    assert screens == {text: printed(text.removeprefix("toolgauge ")).rstrip("\n") for text in screens}


def is_run_here(text: str) -> bool:
    program = text.split()[0]
    # `tests/deploy/test_rules.py` runs the cases of the rules file by file.
    return not text.startswith("promtool test ") and (program not in OPTIONAL or shutil.which(program) is not None)
