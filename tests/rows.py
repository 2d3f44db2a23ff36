"""Tables of cases of one shape: one test goes through all rows of `@each_row(names, rows)` and names each that fails.

It is written like `parametrize`, and with `--long` each row is a test of its own, also those that `pytest.param` marks `long`. A row that starts something, or takes fixtures that
it changes, is no row: that is a case for `parametrize`.
"""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import pytest
from _pytest.mark import ParameterSet


class Row(NamedTuple):
    """The arguments of one row, and what the row is called where it fails."""

    name: str
    arguments: Mapping[str, Any]


class Rows(tuple[Row, ...]):
    """The rows of a test, as the value of the first of their arguments; the others have none."""

    __slots__ = ()


def parametrize(metafunc: pytest.Metafunc, names: Sequence[str], rows: Iterable[Row], *, each: bool) -> None:
    """Make one test of all rows, or one of each."""
    found = Rows(rows)
    if each:
        values = [tuple(row.arguments[name] for name in names) for row in found]
        metafunc.parametrize(names, values, ids=[row.name for row in found])
    else:
        metafunc.parametrize(names, [tuple(found for _ in names)], ids=["rows"])


def each_row(
    names: str | Sequence[str],
    rows: Iterable[ParameterSet | Sequence[object] | object],
    *,
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> pytest.MarkDecorator:
    """Try a test with each row, in one test."""
    return pytest.mark.rows(names, rows, ids)


def marked(mark: pytest.Mark, *, long: bool) -> tuple[list[str], list[Row]]:
    """Return the names and the rows of a mark, and those that take long only where they are wanted."""
    named: str | Sequence[str] = mark.args[0]
    values: Iterable[object] = mark.args[1]
    ids: Iterable[object] | Callable[[object], object] | None = mark.args[2]
    names = [name.strip() for name in named.split(",")] if isinstance(named, str) else [*named]
    given = [value for value in values if long or not (isinstance(value, ParameterSet) and value.marks)]
    rows = [
        one.values if isinstance(one, ParameterSet) else (one,) if len(names) == 1 else cast("Sequence[object]", one)
        for one in given
    ]
    if callable(ids):
        called = ["-".join(str(ids(value)) for value in row) for row in rows]
    else:
        called = [*map(str, range(len(rows)) if ids is None else ids)]
    return names, [Row(name, dict(zip(names, row, strict=True))) for name, row in zip(called, rows, strict=True)]


def run_rows(test: pytest.Function) -> bool:
    """Run a test for each of its rows, if it has any; return whether it had."""
    tables = {name: value for name, value in test.funcargs.items() if isinstance(value, Rows)}
    if not tables:
        return False
    rows, *_ = tables.values()
    shared = {name: value for name, value in arguments_of(test).items() if name not in tables}
    failed: list[BaseException] = []
    for row in rows:
        try:
            test.obj(**shared, **row.arguments)
        # Whatever it is, the other rows are tried too; a row that skips fails, for it would take the others with it.
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - as said
            error.add_note(
                f"in row {row.name}: {', '.join(f'{name}={reprlib.repr(value)}' for name, value in row.arguments.items())}"
            )
            failed.append(error)
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {len(rows)} rows fail", failed)
    return True


def arguments_of(test: pytest.Function) -> dict[str, Any]:
    return {name: test.funcargs[name] for name in test._fixtureinfo.argnames}  # pyright: ignore[reportPrivateUsage]
