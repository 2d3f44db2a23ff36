"""The files and annotations of `toolgauge check`."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from toolgauge.cli.options import Asked
from toolgauge.model.errors import ToolgaugeError
from toolgauge.report.findings import Report, Row
from toolgauge.report.junit import junit
from toolgauge.report.markdown import annotations, markdown
from toolgauge.report.sarif import sarif
from toolgauge.report.streams import annotate, echo
from toolgauge.report.terminal import printable


class Reports:
    """Collects rows where a report needs them, and writes the reports at the end."""

    def __init__(self, asked: Asked, environment: Mapping[str, str]) -> None:
        writers: tuple[tuple[str | None, Callable[[Report], bytes]], ...] = (
            (asked.junit_file, junit),
            (asked.markdown_file, lambda report: markdown(report).encode()),
            (asked.sarif_file, sarif),
        )
        self._files = [(file, write) for file, write in writers if file is not None]
        self._annotates = asked.github or environment.get("GITHUB_ACTIONS") == "true"
        self._summary_file = environment.get("GITHUB_STEP_SUMMARY")
        self.title = f"toolgauge {click.get_current_context().info_name}"
        self.rows: list[Row] = []
        for file, _ in self._files:
            if not Path(file).absolute().parent.is_dir():
                raise click.UsageError(f"cannot write `{file}`: there is no directory `{Path(file).parent}`")

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows, where a report is wanted."""
        if self._annotates or self._files:
            self.rows += rows

    def write(self, report: Report) -> None:
        """Write the files, and the annotations to standard error."""
        for file, write in self._files:
            appends = file == self._summary_file and write is not junit
            try:
                with Path(file).open("ab" if appends else "wb") as stream:
                    stream.write(write(report))
            except OSError as error:
                raise ToolgaugeError(f"cannot write `{file}`: {error.strerror or error}") from error
            echo(f"{'added to' if appends else 'wrote'} `{printable(file)}`", err=True)
        for line in annotations(report) if self._annotates else ():
            annotate(line)
