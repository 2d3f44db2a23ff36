"""The dashboard `toolgauge-quality`: how good the tool calls are, and where they got worse."""

from deploy.dashboards.model import Annotation, Dashboard, Panel, Query, Row, Threshold, Variable
from deploy.dashboards.scores import (
    ALL,
    BETWEEN,
    BY_VERSION,
    CALLED,
    ENFORCED,
    FAILED,
    GRADED,
    JOB,
    NEWEST_VERSION,
    RECOVERED,
    SCORES,
    SERVICES_BEFORE,
    SINCE,
    STREAM_LEGEND,
    VERSIONS,
    VERSIONS_BEFORE,
    WITH_SCORE,
    ZERO,
    count,
    evaluations,
    mean,
    of_alarms,
    of_success,
    or_none,
    rate,
    ratio,
    share,
    stream,
    worst,
)

_GOOD_TO_BAD = (
    Threshold(value=None, color="red"),
    Threshold(value=0.8, color="orange"),
    Threshold(value=0.95, color="green"),
)
_ANY_IS_BAD = (Threshold(value=None, color="green"), Threshold(value=1, color="red"))
_ERRORS = (
    Threshold(value=None, color="green"),
    Threshold(value=0.01, color="orange"),
    Threshold(value=0.05, color="red"),
)
_NEUTRAL = (Threshold(value=None, color="blue"),)
_DROPS = (
    Threshold(value=None, color="green"),
    Threshold(value=0.02, color="orange"),
    Threshold(value=0.1, color="red"),
)
WRONG = "What is wrong"

_PURPOSE = """\
**Did the tool calls of your agents get worse, where, and since when?** Begin at *What is wrong*: one line for each stream of
scores, the strongest evidence of a drop first. A drop with a version beside it came with that release: compare it below with
its predecessor. Numbers with little volume under them mean little. Follow an exemplar (the small squares) to a trace that
scored badly. *Level* says what is judged: single calls, or whole trajectories."""


_NOW = Row(
    title="Now",
    panels=(
        Panel(
            kind="stat",
            title="Streams in alarm",
            description="Streams of scores that are lower than their baseline. Click for the table of streams.",
            unit="short",
            width=5,
            height=4,
            thresholds=_ANY_IS_BAD,
            links_to_panel=WRONG,
            queries=(Query(expr=f"sum({stream('active')})"),),
        ),
        Panel(
            kind="stat",
            title="Evaluations passed",
            description="Share of the evaluations with a score that passed.",
            unit="percentunit",
            width=5,
            height=4,
            minimum=0,
            maximum=1,
            decimals=1,
            thresholds=_GOOD_TO_BAD,
            queries=(Query(expr=share('="pass"')),),
        ),
        Panel(
            kind="stat",
            title="Tool calls a minute",
            description=(
                "Tool calls in closed trajectories, a minute: all of them, those that failed, and those that failed and were "
                "made good by a later call."
            ),
            unit="short",
            width=5,
            height=4,
            decimals=1,
            thresholds=_NEUTRAL,
            queries=(
                Query(expr=f"60 * {CALLED}", legend="all"),
                Query(expr=f"60 * {FAILED}", legend="failed", exemplars=True),
                Query(expr=f"60 * {RECOVERED}", legend="recovered"),
            ),
        ),
        Panel(
            kind="stat",
            title="Streams learning",
            description="Streams that have too few conversations yet to be watched. They count in their agent's stream.",
            unit="short",
            width=4,
            height=4,
            thresholds=_NEUTRAL,
            queries=(Query(expr=f'sum(toolgauge_streams{{{JOB}, toolgauge_state="learning"}})'),),
        ),
        Panel(
            kind="stat",
            title="Evaluation errors",
            description="Share of the evaluations that ended with an error: a fault of the evaluation, not of the agent.",
            unit="percentunit",
            width=5,
            height=4,
            decimals=1,
            thresholds=_ERRORS,
            queries=(Query(expr=ratio(or_none(evaluations('="error"'), evaluations('!=""')), evaluations('!=""'))),),
        ),
    ),
)

_WRONG = Row(
    title=WRONG,
    panels=(
        Panel(
            kind="table",
            title=WRONG,
            description=(
                "One line a stream, strongest evidence of a drop first; at 1 the alarm is raised. A line without a tool is "
                "that of all tools of an agent. `Since` is when the alarm was raised and `Version` the newest one scored, within "
                "the time that is shown. "
                "Evidence links to the traces of an agent's tool that did not pass."
            ),
            unit="percentunit",
            width=24,
            height=9,
            decimals=1,
            queries=(
                Query(expr=stream("evidence"), legend="Evidence"),
                Query(expr=stream("baseline"), legend="Baseline"),
                Query(expr=stream("current"), legend="Current"),
                Query(expr=f"{stream('baseline')} - {stream('current')}", legend="Drop"),
                Query(expr=stream("observations"), legend="Observations"),
                Query(expr=of_alarms(SINCE), legend="Since"),
                Query(expr=NEWEST_VERSION, legend="Version since"),
            ),
        ),
    ),
)

_OVER_TIME = Row(
    title="Over time",
    panels=(
        Panel(
            kind="lines",
            title="Mean score by tool",
            description="Mean of the scores of each tool. Exemplars lead to calls that did not score 1.",
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
            queries=(
                Query(expr=mean("gen_ai_tool_name"), legend="{{gen_ai_tool_name}}"),
                # Draws nothing: exemplars hang on buckets, and these are the buckets below the best score.
                Query(
                    expr=rate("toolgauge_evaluation_score_bucket", f'{ENFORCED}, le!="+Inf"') + " < 0",
                    legend="imperfect scores",
                    exemplars=True,
                ),
            ),
        ),
        Panel(
            kind="lines",
            title="Share passed by criterion",
            description="Share of the evaluations with a score that passed, by criterion.",
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
            queries=(
                Query(
                    expr=share('="pass"', "gen_ai_evaluation_name", SCORES),
                    legend="{{gen_ai_evaluation_name}}",
                    exemplars=True,
                ),
            ),
        ),
        Panel(
            kind="lines",
            title="Evidence of a drop",
            description="Evidence that the scores of a stream are lower than their baseline. The alarm is raised at 1.",
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1.1,
            thresholds=(Threshold(value=None, color="transparent"), Threshold(value=1, color="red")),
            threshold_line=True,
            queries=(Query(expr=stream("evidence"), legend=STREAM_LEGEND),),
        ),
        Panel(
            kind="bars",
            title="Scores a minute by tool",
            description="How many scores the means above are made of.",
            unit="short",
            width=8,
            height=5,
            minimum=0,
            stack="normal",
            queries=(Query(expr=f"60 * {count('gen_ai_tool_name')}", legend="{{gen_ai_tool_name}}"),),
        ),
        Panel(
            kind="bars",
            title="Evaluations a minute by criterion",
            description="How many evaluations with a score the shares above are made of.",
            unit="short",
            width=8,
            height=5,
            minimum=0,
            stack="normal",
            queries=(
                Query(
                    expr=f"60 * {evaluations(WITH_SCORE, 'gen_ai_evaluation_name', SCORES)}",
                    legend="{{gen_ai_evaluation_name}}",
                ),
            ),
        ),
        Panel(
            kind="stat",
            title="A run without a fault seen takes",
            description=(
                "Tokens, seconds and cost of all runs by the runs that passed (`costs.success`): failed runs count. No data: none passed, "
                "or it was not recorded."
            ),
            unit="short",
            width=8,
            height=5,
            thresholds=_NEUTRAL,
            queries=(
                Query(expr=of_success("tokens"), legend="tokens"),
                Query(expr=of_success("duration_seconds"), legend="seconds"),
                Query(expr=of_success("cost"), legend="cost"),
            ),
        ),
    ),
)

_VERSION_LEGEND = "{{toolgauge_service}} {{service_version}}"
_RELEASES = Row(
    title="A release beside its predecessor",
    panels=(
        Panel(
            kind="lines",
            title="Mean score by version",
            description="Mean of the scores of each version of a service. Two versions at a time are a roll-out.",
            unit="percentunit",
            width=8,
            minimum=0,
            maximum=1,
            queries=(Query(expr=mean(BY_VERSION), legend=_VERSION_LEGEND),),
        ),
        Panel(
            kind="lines",
            title="Share failed by version",
            description="Share of the evaluations with a score that failed, by version of a service. Exemplars lead to them.",
            unit="percentunit",
            width=8,
            minimum=0,
            queries=(Query(expr=share('="fail"', BY_VERSION), legend=_VERSION_LEGEND, exemplars=True),),
        ),
        Panel(
            kind="bars",
            title="Scores a minute by version",
            description="How many scores the means and shares beside this are made of.",
            unit="short",
            width=8,
            minimum=0,
            stack="normal",
            queries=(Query(expr=f"60 * {count(BY_VERSION)}", legend=_VERSION_LEGEND),),
        ),
    ),
)

_DISTRIBUTION = Row(
    title="Distribution",
    panels=(
        Panel(
            kind="heatmap",
            title="Scores between 0 and 1",
            description=(
                "How many scores fell between two bounds, of criteria that can score between 0 and 1: no data where all of "
                "them score 0 or 1. The lowest line is a score of exactly 0."
            ),
            unit="short",
            width=12,
            queries=(Query(expr=f"sum by (le) (rate({GRADED})", legend="{{le}}", exemplars=True),),
        ),
        Panel(
            kind="bars",
            title="Exactly 0, between, exactly 1",
            description="A mean of 0.9 can be one call in ten at 0, or all of them a little off: they ask for other repairs.",
            unit="percentunit",
            width=12,
            minimum=0,
            maximum=1,
            stack="percent",
            queries=(
                Query(expr=ratio(ZERO, ALL), legend="exactly 0"),
                Query(expr=ratio(BETWEEN, ALL), legend="between"),
                Query(expr=ratio(f"({ALL} - {BETWEEN} - {ZERO})", ALL), legend="exactly 1"),
            ),
        ),
    ),
)


_BREAKDOWN = Row(
    title="Breakdown",
    panels=(
        Panel(
            kind="ranking",
            title="Worst 10 tools",
            description="Tools whose scores dropped most below their baseline.",
            unit="percentunit",
            width=12,
            minimum=0,
            decimals=1,
            thresholds=_DROPS,
            queries=(
                Query(
                    expr=worst("gen_ai_agent_name, gen_ai_tool_name"),
                    legend="{{gen_ai_agent_name}} {{gen_ai_tool_name}}",
                ),
            ),
        ),
        Panel(
            kind="ranking",
            title="Worst 10 criteria",
            description="Criteria whose scores dropped most below their baseline.",
            unit="percentunit",
            width=12,
            minimum=0,
            decimals=1,
            thresholds=_DROPS,
            queries=(Query(expr=worst("gen_ai_evaluation_name"), legend="{{gen_ai_evaluation_name}}"),),
        ),
    ),
)


def _chosen(
    name: str, label: str, of_label: str, matchers: str, *, many: bool = True, first: str | None = None
) -> Variable:
    selector = f"toolgauge_evaluation_score_count{{{matchers}}}" if matchers else "toolgauge_evaluation_score_count"
    return Variable(name=name, label=label, of_label=of_label, selector=selector, many=many, first=first)


QUALITY = Dashboard(
    uid="toolgauge-quality",
    title="Toolgauge / Quality overview",
    description="Scores of the tool calls of AI agents: what got worse, where, and with which release.",
    purpose=_PURPOSE,
    variables=(
        _chosen("job", "Job", "job", ""),
        _chosen("service", "Service", "toolgauge_service", JOB),
        _chosen("environment", "Environment", "deployment_environment_name", f'{JOB}, toolgauge_service=~"$service"'),
        _chosen("agent", "Agent", "gen_ai_agent_name", f'{JOB}, toolgauge_service=~"$service"'),
        _chosen(
            "tool", "Tool", "gen_ai_tool_name", f'{JOB}, toolgauge_service=~"$service", gen_ai_agent_name=~"$agent"'
        ),
        _chosen("criterion", "Criterion", "gen_ai_evaluation_name", f'{JOB}, toolgauge_service=~"$service"'),
        _chosen("level", "Level", "toolgauge_level", f'{JOB}, toolgauge_service=~"$service"', many=False, first="call"),
    ),
    rows=(_NOW, _WRONG, _OVER_TIME, _RELEASES, _DISTRIBUTION, _BREAKDOWN),
    annotations=(
        Annotation(
            name="Regressions",
            expr=f"{stream('active')} > 0",
            title="Scores are lower than their baseline",
            text=STREAM_LEGEND,
            color="red",
        ),
        Annotation(
            name="Versions",
            expr=f"{VERSIONS} unless {VERSIONS_BEFORE} and on (toolgauge_service) {SERVICES_BEFORE}",
            title="A version was seen for the first time",
            text=_VERSION_LEGEND,
            color="blue",
        ),
    ),
)
