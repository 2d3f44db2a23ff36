"""Where `toolgauge check` sends runs beside what it prints: an HTML file, and the score tables of backends."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from toolgauge.backends.settings import VENDORS
from toolgauge.cli.options import Asked
from toolgauge.config.model import Config, backends
from toolgauge.model.outcomes import Scorecard
from toolgauge.report.streams import echo, has_bar, redraw
from toolgauge.report.terminal import printable
from toolgauge.score.criterion import Criterion
from toolgauge.service.pipeline_factory import redactor

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
    from toolgauge.service.score_backlog import ScoreBacklog

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
