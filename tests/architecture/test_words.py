"""Names and first lines of docstrings use the field's nouns, not the words of a riddle."""

import ast

import pytest

from tests.architecture.phrases import phrases
from tests.architecture.words import by_module, offenders


def test_no_module_uses_a_word_that_is_none_for_code():
    assert by_module() == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def told(): ...", ["told"]),
        ("class WhatIsLeft: ...", ["WhatIsLeft"]),
        ("def f(said): ...", ["said"]),
        ("_nobody = 1", ["_nobody"]),
        ("self.is_told = 1", ["is_told"]),
        ('"""Tells one from another."""', ["Tells one from another."]),
        ('def f():\n    """Let go of it."""', ["Let go of it."]),
        ('def f():\n    """Give it back.\n\n    Whoever asks first has it.\n    """', []),
        ('"""The rule called `told`."""', []),
        ("intelligent = essay = 1", []),
    ],
)
def test_words_are_found_in_names_and_first_lines(code: str, found: list[str]):
    assert list(offenders(ast.walk(ast.parse(code)))) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Return what is left of it.", ["what is", "of it"]),
        ("Whoever reads\nthem anew: those that stand first.", ["Whoever", "anew", "those that", "stand "]),
        ("There are none, and `what is` quoted", ["are none"]),
        ("It stands for the rest of it all, and is no longer used.", []),
    ],
)
def test_headless_phrases_are_found_over_the_end_of_a_line(text: str, found: list[str]):
    assert phrases(text) == found
