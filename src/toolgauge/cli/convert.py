"""`toolgauge convert`: definitions of other tools become criteria."""

from pathlib import Path

import click

from toolgauge.authoring.convert.conversion import convert
from toolgauge.authoring.convert.draft import read_documents
from toolgauge.cli.command_parts import write_text
from toolgauge.cli.main import EXIT_CODES
from toolgauge.config.load import as_yaml
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable


@click.command("convert", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option(
    "--references", type=click.Path(path_type=Path), help="Where what is expected in several cases is written."
)
@click.option("--key", default="eval.case.id", show_default=True, help="The attribute of a trace that holds its case.")
def command(files: tuple[str, ...], *, references: Path | None, key: str) -> None:
    """Write definitions of other tools as criteria.

    FILES are evaluators and evaluation sets of UiPath, eval sets and `test_config.json` of Google ADK, samples of Ragas,
    trajectories of agentevals and configurations of promptfoo, as JSON, JSON Lines or YAML. Files that refer to each
    other are given together. The criteria go to standard output, what could not be carried over to standard error.

    Where a criterion has more than one case, what is expected in each goes to the file of `--references`; its path in the
    criteria is relative to them.
    """
    documents = [document for file in files for document in read_documents(file)]
    converted = convert(documents, references, key)
    for path, lines in converted.references.items():
        write_text(path, "".join(f"{line}\n" for line in lines))
    echo(as_yaml({"criteria": converted.criteria}), end="")
    if references is not None and not converted.references:
        echo(f"`{references}` was not written: the criteria hold what is expected in their cases", err=True)
    if converted.case is not None:
        echo(printable(f"each run needs the attribute `{key}` with its case, as `{converted.case}`"), err=True)
    for note in converted.notes:
        echo(f"not carried over: {printable(note)}", err=True)
