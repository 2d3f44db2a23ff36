"""Breaks commands to a CI system in its log."""

import os
import re
from io import TextIOWrapper

# What each of them sets for its jobs: GitHub Actions, Azure Pipelines, TeamCity and all others.
_SYSTEMS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION", "CI")
# `::set-env name=A::b` where a line begins, `##[add-path]a`, `##vso[task.setvariable]a` and `##teamcity[...]` anywhere.
_COMMAND = re.compile(r"^([^\S\n]*):(?=:)|#(?=#\w*\[)", re.MULTILINE)


def without_commands(text: str) -> str:
    """Break commands in the text, where a CI system reads it; the escapes leave the values of JSON as they are."""
    if all(os.environ.get(name) in (None, "", "false") for name in _SYSTEMS):
        return text
    return _COMMAND.sub(lambda found: "\\u0023" if found[1] is None else f"{found[1]}\\u003a", text)


class Output(TextIOWrapper):
    """Standard output or standard error without commands; intended ones are written as bytes."""

    def write(self, text: str, /) -> int:
        """Write text."""
        return super().write(without_commands(text))
