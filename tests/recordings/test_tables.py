"""Names come from clients: they stay names, on a terminal and in a pull request."""

import re

from markdown_it import MarkdownIt
from msgspec.structs import replace

from tests.recordings.support import ONE_LOOK, counts, stream
from tests.rows import each_row
from toolgauge.recordings.comparison import Comparison, Filters, Versions, compare
from toolgauge.recordings.comparison_tables import conclusion, markdown_lines, table_lines
from toolgauge.recordings.conversation_means import Observed, StreamCounts

HOSTILE = [
    "a|b",
    "a\\|b",
    "`rm`",
    "``` x",
    "<img src=x onerror=alert(1)>",
    "</code></td><script>",
    "[a](javascript:alert(1))",
    "![a](http://x/y.png)",
    "@everyone",
    "#1",
    "www.example.com",
    "https://example.com",
    "**bold**",
    "__init__",
    "&lt;b&gt;",
    "line\nbreak",
    "| x |\n|---|",
    "$x$",
    "~~a~~",
    "\x1b[31mred",
    "\u202egnp.exe",
]


def compared(name: str, base: StreamCounts, new: StreamCounts) -> Comparison:
    hostile = replace(stream(name), service=name, agent=name, criterion=name)
    observed = Observed(streams={"1.0": {hostile: base}, name: {hostile: new}}, first_seen_ns={})
    versions = [Versions(service=name, base="1.0", new=name)]
    return compare(observed, versions, Filters([("tool", name)]), ONE_LOOK)


@each_row("name", HOSTILE)
def test_a_name_stays_a_name_in_markdown(name: str):
    text = "\n".join(markdown_lines(compared(name, counts(100, 95), counts(10, 5))))
    html = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert set(re.findall(r"</?([a-z0-9]+)", html)) == {
        "h3", "ul", "li", "code", "table", "thead", "tbody", "tr", "th", "td", "strong",
    }  # fmt: skip
    (row,) = re.findall(r"<tbody>\s*<tr>(.*?)</tr>", html, re.DOTALL)
    assert row.count("<td>") == 8
    assert all(raw not in text for raw in ("@", "http:", "https:", "www."))


@each_row("name", HOSTILE)
def test_a_name_stays_a_name_on_a_terminal(name: str):
    comparison = compared(name, counts(100, 95), counts(10, 5))
    lines = [*table_lines(comparison), *conclusion(comparison)]
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 6
