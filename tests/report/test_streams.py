"""Where a line may be drawn again."""

import sys
from io import StringIO

import pytest

from toolgauge.report.streams import has_bar


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_dumb_terminal_has_no_bar(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert has_bar()
    monkeypatch.setenv("TERM", "dumb")
    assert not has_bar()
