"""The notebooks in `examples/notebook` run, and hold what their cells show."""

from pathlib import Path

import pytest

from tests.examples.notebooks import NOTEBOOKS, executed, written


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_what_its_cells_show(notebook: Path):
    found = written(executed(notebook))
    assert found == notebook.read_text(), "write it anew: `python -m tests.examples.notebooks`"


def test_the_notebook_shows_the_argument_that_differs():
    (notebook,) = NOTEBOOKS
    shown = notebook.read_text()
    assert '<ins class=\\"expected\\">40.0</ins>' in shown
    assert '<del class=\\"actual\\">42.5</del>' in shown
    assert "<script" not in shown
