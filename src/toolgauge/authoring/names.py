"""Names of tools, services and agents as they may stand in criteria: they come from producers, and models invent some."""

import re

from toolgauge.authoring.value_profiles import MIN_SOURCES

_USUAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")
_LONGEST = 128
_LONG_NUMBER = re.compile(r"\d{4}")
_SLUG = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG = 40


def may_be_written(name: str, *, is_offered: bool, runs: int) -> bool:
    """Return whether a name may stand in a file: what a tool's maker offers may, a name that a single run made up may not."""
    if is_offered:
        return 0 < len(name) <= _LONGEST
    least = MIN_SOURCES if _LONG_NUMBER.search(name) else 2
    return runs >= least and _USUAL.fullmatch(name) is not None


def is_plain(name: str) -> bool:
    """Return whether a name means itself alone wherever criteria take globs and places."""
    return _USUAL.fullmatch(name) is not None


def as_glob(name: str) -> str:
    """Write a name so that it means nothing but itself, or names that differ in a single sign; globs have no escape."""
    return "".join("?" if letter == "*" or not letter.isprintable() else letter for letter in name)


def slug(name: str) -> str:
    """Write a name as a part of a criterion's name."""
    return _SLUG.sub("-", name.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "service"
