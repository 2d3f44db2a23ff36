"""The page of producers has, for each framework, what is really recovered from its captured spans."""

from tests.recovery_table import table, written


def test_the_table_of_what_is_recovered_is_made_from_the_captures():
    assert written() == table(), "run `python -m tests.recovery_table --write`"
