"""Names come from clients: they stay names, on a terminal and in a pull request."""

import json
import re

from markdown_it import MarkdownIt
from msgspec.structs import replace

from tests.recordings.support import ONE_LOOK, counts, stream
from tests.rows import each_row
from toolgauge.recordings.comparison import Comparison, Filters, Versions, compare
from toolgauge.recordings.comparison_tables import comparison_object, conclusion, markdown_lines, table_lines
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


def test_failures_that_were_made_good_stand_beside_the_verdict():
    comparison = compared("find", StreamCounts(counts(100, 95).sample, recovered=3), counts(100, 95))
    assert "(recovered failures 3 -> 0)" in "\n".join(table_lines(comparison))
    assert "(recovered failures 3 -> 0)" in "\n".join(markdown_lines(comparison))
    assert '"recovered_failures": 3' in json.dumps(comparison_object(comparison))


def test_a_drop_within_the_margin_is_said():
    comparison = compared("x", counts(40_000, 38_000), counts(40_000, 37_400))
    assert any(line.endswith("  worse, within the margin") for line in table_lines(comparison))
    assert list(conclusion(comparison)) == [
        "no worse: no stream of 1 fell by more than 0.05 (95% confidence)",
        "worse: `x` of tool `x` of agent `x` of `x` fell from 0.950 to 0.935, within the margin",
    ]


def test_a_criterion_that_was_changed_is_named():
    revised = replace(stream(), revision="b")
    observed = Observed(streams={"1.0": {stream(): counts(5, 5)}, "1.1": {revised: counts(5, 5)}}, first_seen_ns={})
    comparison = compare(observed, [Versions(service="shop", base="1.0", new="1.1")], Filters(), ONE_LOOK)
    assert list(conclusion(comparison)) == [
        "not enough data: nothing that was scored under both",
        "not comparable: `default.tool_success` of agent `support` of `shop`: the criterion was changed between the two, "
        "so they were measured differently",
    ]
    assert comparison_object(comparison)["changed_criteria"] == [
        {
            "service": "shop",
            "environment": None,
            "agent": "support",
            "tool": None,
            "criterion": "default.tool_success",
            "level": "call",
            "base_revisions": ["0123456789ab"],
            "new_revisions": ["b"],
        }
    ]
