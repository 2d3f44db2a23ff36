"""Lines for people fit a screen; what is there to be clicked or pasted stays whole."""

import re

from toolgauge.report.terminal import WIDTH, Style, fitted

COMMAND = "`toolgauge replay --config toolgauge.yaml --criteria criteria.yaml --fail-on fail,error runs.otlp`"


def test_a_long_line_is_broken_at_spaces_below_its_beginning():
    first, *others = fitted("  pass " + "word " * 60).split("\n")
    assert first.startswith("  pass word")
    assert all(line.startswith("      word") for line in others)
    assert all(len(line) <= WIDTH for line in (first, *others))


def test_links_and_commands_stay_whole():
    link = "https://traces.example.com/" + "0" * WIDTH
    lines = fitted(f"  the run failed and this is what to do about it, now: {COMMAND} and look at {link} too").split(
        "\n"
    )
    assert any(COMMAND in line for line in lines)
    assert any(link in line for line in lines)


def test_colours_and_hyperlinks_take_no_room():
    style = Style(colour=True)
    link = style.link("12ab34cd", "http://localhost:8317/trajectories/" + "0" * 32)
    line = f"{style.bad('fail')} {'w' * 60} {link} {'w' * 20}"
    assert fitted(line) == line
    longer = fitted(f"{line} {'w' * 40}")
    assert [len(re.sub(r"\x1b\[\d*m|\x1b\]8;;[^\x1b]*\x1b\\", "", one)) for one in longer.split("\n")] == [95, 44]
