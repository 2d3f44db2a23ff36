"""Reports of `toolgauge check` beside what it prints: files, annotations, and the score tables of backends."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from toolgauge.backends.settings import VENDORS
from toolgauge.cli.check import Asked
from toolgauge.config.model import Config, backends
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.outcomes import Scorecard
from toolgauge.report.findings import Report, Row
from toolgauge.report.junit_and_sarif import junit, sarif
from toolgauge.report.markdown import annotations, markdown
from toolgauge.report.streams import annotate, echo, has_bar, redraw
from toolgauge.report.terminal import printable
from toolgauge.score.criterion import Criterion
from toolgauge.service.pipeline_factory import redactor


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


# Recordings that the title of a page names.
_MAX_NAMED = 3


def endpoints(to: Sequence[str]) -> Iterator[str]:
    """Write the backends that `--to` names as settings."""
    for text in to:
        vendor, _, url = text.partition("=")
        if vendor not in VENDORS:
            known = ", ".join(f"`{one}`" for one in VENDORS)
            raise click.UsageError(f"`--to`: no backend called `{printable(vendor[:80])}`; known: {known}")
        if url:
            yield f"exporters.{vendor}.endpoint={url}"


@contextmanager
def score_tables(to: Sequence[str], config: Config, lost: list[str]) -> Generator[Callable[[Scorecard], None]]:
    """Yield what sends a scorecard to the backends of `--to`; name those that did not take all in `lost`."""
    vendors = {text.partition("=")[0] for text in to}
    chosen = {name: each for name, each in backends(config.exporters).items() if each.vendor in vendors}
    missing = vendors - {each.vendor for each in chosen.values()}
    if missing:
        vendor = min(missing)
        raise click.UsageError(f"`--to {vendor}`: `exporters.{vendor}` is not set; write `--to {vendor}=URL`")
    if not chosen:
        yield lambda _scorecard: None
        return
    from toolgauge.service.destinations import ScoreBacklog

    waits = has_bar()
    with ScoreBacklog(
        config, chosen, lambda waiting: redraw(f"sending: {waiting} scores wait") if waits else None
    ) as backlog:
        yield backlog.add
    redraw("")
    for name, counts in backlog.counts().items():
        accepted, delivered = counts.pop("accepted", 0), counts.pop("delivered", 0)
        rest = "".join(f", {count} {reason}" for reason, count in counts.items() if count)
        echo(f"{name}: {delivered} of {accepted} scores sent{rest}", err=True)
        if delivered + counts["left_out"] < accepted:
            lost.append(name)


@contextmanager
def html_document(
    asked: Asked, config: Config, criteria: Sequence[Criterion]
) -> Generator[Callable[[Scorecard], None]]:
    """Open the file that `--html` names, and yield what adds a scorecard; it is in its place when all went well."""
    file, recordings = asked.html_file, asked.files
    if file is None:
        yield lambda _scorecard: None
        return
    if file == "-":
        raise click.UsageError("`--html -`: standard output has the results; name a file")
    from toolgauge.report.document import TrajectoryDocument

    pass_at = {criterion.revision: criterion.pass_at for criterion in criteria}
    document = TrajectoryDocument(file, redactor(config), pass_at, config.trace_url)
    names = ", ".join(Path(name).name for name in recordings[:_MAX_NAMED])
    more = f" and {len(recordings) - _MAX_NAMED} more" if len(recordings) > _MAX_NAMED else ""
    document.open(f"Trajectories of {names}{more}")
    try:
        yield document.add
        document.close()
    finally:
        document.discard()
    echo(f"wrote `{printable(file)}`", err=True)
    if document.left_out:
        echo(f"{document.left_out} trajectories are not in `{file}`: it has no room for more", err=True)
