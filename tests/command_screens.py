"""The screens in docs/commands.md: each block of `$ toolgauge ...` holds what that command prints.

python -m tests.command_screens          # print the page
python -m tests.command_screens --write  # run the commands, and put what they print into the page
"""

import re
import sys

from click.testing import CliRunner

from tests.page_commands import ROOT
from toolgauge.cli.main import commands

PAGE = ROOT / "docs" / "commands.md"
_SCREEN = re.compile(r"```console\n\$ toolgauge (.*?)\n.*?```", re.DOTALL)


def page() -> str:
    """Return the page with its screens made anew."""
    return _SCREEN.sub(lambda screen: f"```console\n$ toolgauge {screen[1]}\n{printed(screen[1])}```", PAGE.read_text())


def printed(command: str) -> str:
    """Return what a `toolgauge` command prints to standard output."""
    words = [str(ROOT / word) if "/" in word else word for word in command.split()]
    result = CliRunner().invoke(commands, words, prog_name="toolgauge", terminal_width=100)
    return result.stdout.strip("\n") + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    else:
        sys.stdout.write(page())
