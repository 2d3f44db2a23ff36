"""What commands print for people fits 100 columns, names traces by eight digits, and says no word twice in a row."""

import re

import pytest

from tests.captures import CORPUS
from tests.cli.command import run

FOLDERS = ("google-adk", "openinference-agno", "pydantic-ai", "vercel-ai")
TWICE = re.compile(r"\b([A-Za-z]{2,}) +\1\b")


@pytest.mark.parametrize(
    "command", [("replay",), ("inspect",), ("inspect", "--stats"), ("doctor",), ("explain", "default.tool_success")]
)
def test_lines_fit_a_screen_and_say_no_word_twice(command: tuple[str, ...]):
    ended = run(*command, *(str(CORPUS / folder) for folder in FOLDERS), "--set", "redact.values=show")
    lines = f"{ended.out}\n{ended.err}".split("\n")
    assert len(lines) > 10
    assert [line for line in lines if len(line) > 100] == []
    assert [line for line in lines if TWICE.search(line)] == []
    assert re.search(r"\b[0-9a-f]{32}\b", ended.out) is None


def test_eight_digits_of_a_trace_are_enough_to_explain_it():
    shown = run("explain", "default.tool_success", str(CORPUS / "pydantic-ai"), "--trace", "6bde02ae")
    assert shown.out.startswith("trace 6bde02ae of pydantic-ai-demo")
    assert shown.out.count("trace ") == 1
