"""`toolgauge explain`: one criterion, verdict by verdict."""

import json
from collections import Counter

import click
from msgspec.structs import replace

from toolgauge.cli.command_parts import load_to_score, reading_progress, terminal_style, warn_of_unmatched
from toolgauge.cli.main import EXIT_CODES, configuration_options, criteria_option
from toolgauge.config.problems import suggestion
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.outcomes import OutcomeWord, Result, outcome_word
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.json_objects import verdict_objects
from toolgauge.report.streams import echo, is_terminal
from toolgauge.report.terminal import printable
from toolgauge.report.text import TextWriter
from toolgauge.score.criterion import register, with_writing_tools
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds


@click.command("explain", epilog=EXIT_CODES)
@click.argument("name", metavar="CRITERION")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@criteria_option("A criteria file, which has CRITERION; may be given several times. Default criteria need none.")
@click.option("--failed", is_flag=True, help="Only verdicts that are `fail` or `error`.")
@click.option("--trace", "trace_id", metavar="ID", help="Only the trajectory of this trace, or of this conversation.")
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per verdict, each on one line.")
def command(
    name: str,
    files: tuple[str, ...],
    criteria_files: tuple[str, ...],
    trace_id: str | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    failed: bool,
    as_json: bool,
) -> None:
    """Explain the verdicts of one criterion on recorded traffic: what differed, expected beside actual, and the calls.

    CRITERION is the name of a default criterion or of one in `--criteria` or `--config`, FILE is as in `toolgauge inspect --help`.
    A verdict on a trajectory as a whole shows all its calls, one on a call shows this call. No judge is asked.

    On a terminal, values are shown, unless the configuration has `redact.values`; in a pipe and with --json they are with
    `--set redact.values=show` only. What looks like a key, a token, an e-mail address or a card is masked in any case.
    """
    config, criteria = load_to_score(config_paths, overrides, criteria_files)
    criterion = next((one for one in criteria if one.name == name), None)
    if criterion is None:
        raise ConfigError(
            f"no criterion called `{printable(name)}`", hint=suggestion(name, [it.name for it in criteria])
        )
    is_shown = is_terminal() and not as_json and "values" not in config.redact.model_fields_set
    redacting = redactor(config, show_values=is_shown or config.redact.values == "show")
    pass_at = {criterion.revision: criterion.pass_at}
    text = TextWriter(redacting, pass_at, terminal_style())
    unmatched, kinds = UnmatchedCriteria((register(criterion),)), tool_kinds(config)
    words, is_found = Counter[OutcomeWord](), False
    with reading_progress(files) as reading:
        for scorecard in scorecards(reading, offline_pipeline(config, (criterion,))):
            unmatched.see(with_writing_tools(scorecard.trajectory, (), kinds))
            # A trajectory of a conversation is of all its traces.
            trajectory = scorecard.trajectory
            ids = {trajectory.trace_id, trajectory.conversation_id, *(call.span.trace_id for call in trajectory.calls)}
            if trace_id is not None and trace_id not in ids:
                continue
            is_found = True
            found: list[tuple[Result, OutcomeWord]] = [(one, outcome_word(one.outcome)) for one in scorecard.results]
            words.update(word for _, word in found)
            wanted = tuple(result for result, word in found if not failed or word in ("fail", "error"))
            if wanted:
                card = replace(scorecard, results=wanted)
                objects = verdict_objects(card, redacting, pass_at)
                for line in map(json.dumps, objects) if as_json else text.explained(card):
                    reading.echo(line)
    if not is_found and trace_id is None:
        raise RecordingError("there is no trajectory to judge", hint="`toolgauge doctor FILE...` shows what is there")
    if not is_found:
        hint = "`toolgauge inspect FILE...` lists the trajectories"
        raise RecordingError(f"no trajectory of trace `{printable(trace_id or '')}`", hint=hint)
    warn_of_unmatched(unmatched)
    if text.hint is not None:
        echo(f"hint: {text.hint}", err=True)
    counts = ", ".join(f"{count} {word}" for word, count in words.most_common()) or "none"
    rule = f"{criterion.evaluator_name}, passes at {criterion.pass_at:g}"
    shadow = ", in the shadow" if criterion.enforce == "shadow" else ""
    echo(f"verdicts of `{name}` ({rule}{shadow}): {counts}", err=True)
