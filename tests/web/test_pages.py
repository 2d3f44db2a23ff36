"""Rendering: what comes from spans stays text."""

import re

from tests.rows import each_row
from toolgauge.export.redact import Redactor
from toolgauge.report.html import static_file, visible
from toolgauge.web.pages import PageContent, Writing
from toolgauge.web.trajectory_store import TrajectoryStore


@each_row(
    ("text", "shown"),
    [
        ("plain, Größe, 漢字, 👩‍💻", "plain, Größe, 漢字, 👩‍💻"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("a\x00b\x1b[31mc\x85", "a\\x00b\\x1b[31mc\\x85"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("half \ud83d", "half \\ud83d"),
        ("no\u200bbreak\ufeff", "no\\u200bbreak\\ufeff"),
    ],
)
def test_characters_that_act_are_written_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_page_refers_only_to_files_that_are_there() -> None:
    html = PageContent(TrajectoryStore(1, 1), Writing(redactor=Redactor(show_values=True), trace_url=None)).page(
        "base.html", section="trajectories", title="Trajectories"
    )
    names = re.findall(r'(?:src|href)="/static/([^"]+)"', html)
    assert sorted(names) == ["icon.svg", "toolgauge.css", "toolgauge.js"]
    assert all(static_file(name) for name in names)
