"""One module writes to standard output and standard error: what it breaks and shows is broken and shown everywhere."""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import modules

WRITER = "report/streams.py"
# These redirect what plug-ins write.
REDIRECTING = {"plugins.py", "service/plug_in_evaluators.py"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
# What click and the standard library write with.
WRITERS = {
    "echo",
    "secho",
    "echo_via_pager",
    "progressbar",
    "prompt",
    "confirm",
    "get_text_stream",
    "get_binary_stream",
    "show",
    "StreamHandler",
    "print_exc",
    "print_exception",
    "print_stack",
    "pprint",
}


def writes(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what writes to a stream of the process past the one writer."""
    nodes = [*nodes]
    own = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "toolgauge.report.streams"
        for alias in node.names
    }
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="print")):
                yield "print"
            case ast.Attribute(value=ast.Name(id="sys"), attr=name) if name in STREAMS:
                yield f"sys.{name}"
            case ast.Attribute(value=ast.Name(id="click" | "logging" | "traceback" | "error" as module), attr=name) if (
                name in WRITERS
            ):
                yield f"{module}.{name}"
            case ast.ImportFrom(module="sys" | "click" | "logging" | "traceback" | "pprint" | "rich", names=names):
                yield from (each.name for each in names if each.name in STREAMS | WRITERS and each.name not in own)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="os"), attr="write"), args=[ast.Constant(value=1 | 2), *_]
            ):
                yield "os.write"
            case _:
                pass


def test_only_one_module_writes_to_the_streams_of_the_process():
    others = {name: module for name, module in modules().items() if name not in {WRITER, *REDIRECTING}}
    assert {name: found for name, module in others.items() if (found := [*writes(module.nodes)])} == {}
    assert {*writes(modules()[WRITER].nodes)} >= {"sys.stdout", "sys.stderr"}


@pytest.mark.parametrize(
    "code",
    [
        "print(name)",
        "click.echo(name)",
        "from click import secho",
        "sys.stderr.write(name)",
        "stream = sys.stdout.buffer",
        "from sys import stdout",
        "logging.StreamHandler()",
        "error.show()",
        "os.write(2, name)",
    ],
)
def test_writing_is_found(code: str):
    assert list(writes(ast.walk(ast.parse(code))))


@pytest.mark.parametrize("code", ["echo(name)", "reading.echo(name)", "os.write(pipe, name)", "sys.stdin.isatty()"])
def test_the_one_writer_and_other_files_are_not_found(code: str):
    assert not list(writes(ast.walk(ast.parse(code))))
