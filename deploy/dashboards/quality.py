"""The dashboard `toolgauge-quality`: how good the tool calls are, and where they got worse."""

from deploy.dashboards.model import Annotation, Dashboard, Panel, Query, Row, Threshold, Variable

_RATE = "$__rate_interval"
_JOB = 'job=~"$job"'
_AGENTS = (
    f'{_JOB}, toolgauge_service=~"$service", deployment_environment_name=~"$environment", gen_ai_agent_name=~"$agent"'
)
_CALLS = f'{_AGENTS}, gen_ai_tool_name=~"$tool"'
_SCORES = f'{_CALLS}, gen_ai_evaluation_name=~"$criterion", toolgauge_level="$level"'
_WITH_SCORE = '=~"pass|fail"'
# Criteria that are only tried out count nowhere but in the panels that show criteria one by one.
_ENFORCED = f'{_SCORES}, toolgauge_enforce!="shadow"'
_STREAM = (
    "toolgauge_service, deployment_environment_name, gen_ai_agent_name, gen_ai_tool_name, gen_ai_evaluation_name, "
    "toolgauge_criterion_revision, toolgauge_level"
)
_STREAM_LEGEND = "{{gen_ai_agent_name}} {{gen_ai_tool_name}} {{gen_ai_evaluation_name}}"
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


def _rate(metric: str, matchers: str, by: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{matchers}}}[{_RATE}]))"


def _ratio(above: str, below: str) -> str:
    """Divide where there is something to divide by: no data is better than a wrong 0."""
    return f"{above} / ({below} > 0)"


def _mean(by: str) -> str:
    return _ratio(_rate("toolgauge_evaluation_score_sum", _ENFORCED, by), _count(by))


def _count(by: str) -> str:
    return _rate("toolgauge_evaluation_score_count", _ENFORCED, by)


def _evaluations(outcome: str, by: str = "", of: str = _ENFORCED) -> str:
    return _rate("toolgauge_evaluations_total", f"{of}, toolgauge_outcome{outcome}", by)


def _share(outcome: str, by: str = "", of: str = _ENFORCED) -> str:
    return _ratio(_evaluations(outcome, by, of), _evaluations(_WITH_SCORE, by, of))


def _stream(metric: str, by: str = _STREAM) -> str:
    """Read one value a stream where several processes may report it."""
    return f"max by ({by}) (toolgauge_regression_{metric}{{{_SCORES}}})"


def _of_alarms(expr: str) -> str:
    return f"({expr}) and on ({_STREAM}) ({_stream('active')} > 0)"


_SINCE = f"1000 * max by ({_STREAM}) (max_over_time(timestamp(toolgauge_regression_active{{{_SCORES}}} == 0)[1d:$__interval]))"
_NEWEST_VERSION = (
    f"topk by ({_STREAM}) (1, max by ({_STREAM}, service_version) "
    f'(min_over_time(timestamp(toolgauge_evaluation_score_count{{{_SCORES}, service_version!=""}})[1d:$__interval])) * 1000)'
)

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
            queries=(Query(expr=f"sum({_stream('active')})"),),
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
            queries=(Query(expr=_share('="pass"')),),
        ),
        Panel(
            kind="stat",
            title="Tool calls a minute",
            description="Tool calls in closed trajectories, a minute.",
            unit="short",
            width=5,
            height=4,
            decimals=1,
            thresholds=_NEUTRAL,
            queries=(Query(expr=f"60 * {_rate('toolgauge_tool_calls_total', _CALLS)}"),),
        ),
        Panel(
            kind="stat",
            title="Streams learning",
            description="Streams that have too few conversations yet to be watched. They count in their agent's stream.",
            unit="short",
            width=4,
            height=4,
            thresholds=_NEUTRAL,
            queries=(Query(expr=f'sum(toolgauge_streams{{{_JOB}, toolgauge_state="learning"}})'),),
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
            queries=(Query(expr=_ratio(_evaluations('="error"'), _evaluations('!=""'))),),
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
                "that of all tools of an agent. `Since` is when the alarm was raised, `Version` the newest one scored. "
                "Evidence links to the traces of an agent's tool that did not pass."
            ),
            unit="percentunit",
            width=24,
            height=9,
            decimals=1,
            queries=(
                Query(expr=_stream("evidence"), legend="Evidence"),
                Query(expr=_stream("baseline"), legend="Baseline"),
                Query(expr=_stream("current"), legend="Current"),
                Query(expr=f"{_stream('baseline')} - {_stream('current')}", legend="Drop"),
                Query(expr=_stream("observations"), legend="Observations"),
                Query(expr=_of_alarms(_SINCE), legend="Since"),
                Query(expr=_NEWEST_VERSION, legend="Version since"),
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
                Query(expr=_mean("gen_ai_tool_name"), legend="{{gen_ai_tool_name}}"),
                # Draws nothing: exemplars hang on buckets, and these are the buckets below the best score.
                Query(
                    expr=_rate("toolgauge_evaluation_score_bucket", f'{_ENFORCED}, le!="+Inf"') + " < 0",
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
                    expr=_share('="pass"', "gen_ai_evaluation_name", _SCORES),
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
            queries=(Query(expr=_stream("evidence"), legend=_STREAM_LEGEND),),
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
            queries=(Query(expr=f"60 * {_count('gen_ai_tool_name')}", legend="{{gen_ai_tool_name}}"),),
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
                    expr=f"60 * {_evaluations(_WITH_SCORE, 'gen_ai_evaluation_name', _SCORES)}",
                    legend="{{gen_ai_evaluation_name}}",
                ),
            ),
        ),
        Panel(
            kind="lines",
            title="Observations in the baseline",
            description="How many conversations the baseline of a stream is made of; few of them make a slow detector.",
            unit="short",
            width=8,
            height=5,
            minimum=0,
            queries=(Query(expr=_stream("observations"), legend=_STREAM_LEGEND),),
        ),
    ),
)

_BY_VERSION = "toolgauge_service, service_version"
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
            queries=(Query(expr=_mean(_BY_VERSION), legend=_VERSION_LEGEND),),
        ),
        Panel(
            kind="lines",
            title="Share failed by version",
            description="Share of the evaluations with a score that failed, by version of a service. Exemplars lead to them.",
            unit="percentunit",
            width=8,
            minimum=0,
            queries=(Query(expr=_share('="fail"', _BY_VERSION), legend=_VERSION_LEGEND, exemplars=True),),
        ),
        Panel(
            kind="bars",
            title="Scores a minute by version",
            description="How many scores the means and shares beside this are made of.",
            unit="short",
            width=8,
            minimum=0,
            stack="normal",
            queries=(Query(expr=f"60 * {_count(_BY_VERSION)}", legend=_VERSION_LEGEND),),
        ),
    ),
)

_BUCKETS = "toolgauge_evaluation_score_bucket"
_ZERO = _rate(_BUCKETS, f'{_ENFORCED}, le=~"0|0.0"')
_BELOW_ONE = _rate(_BUCKETS, f'{_ENFORCED}, le="0.999"')
_ALL = _rate(_BUCKETS, f'{_ENFORCED}, le="+Inf"')
# Criteria that score only 0 or 1 have fewer buckets, which do not add up with those of the others.
_GRADED = f'{_BUCKETS}{{{_ENFORCED}}}[{_RATE}]) and ignoring (le) {_BUCKETS}{{{_ENFORCED}, le="0.5"}}'
_DISTRIBUTION = Row(
    title="Distribution",
    panels=(
        Panel(
            kind="heatmap",
            title="Scores between 0 and 1",
            description=(
                "How many scores fell between two bounds, of criteria that can score between 0 and 1; the lowest line is a "
                "score of exactly 0."
            ),
            unit="short",
            width=12,
            queries=(Query(expr=f"sum by (le) (rate({_GRADED})", legend="{{le}}", exemplars=True),),
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
                Query(expr=_ratio(_ZERO, _ALL), legend="exactly 0"),
                Query(expr=_ratio(f"({_BELOW_ONE} - {_ZERO})", _ALL), legend="between"),
                Query(expr=_ratio(f"({_ALL} - {_BELOW_ONE})", _ALL), legend="exactly 1"),
            ),
        ),
    ),
)


def _worst(by: str) -> str:
    return f"topk(10, max by ({by}) ({_stream('baseline')} - {_stream('current')}))"


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
                    expr=_worst("gen_ai_agent_name, gen_ai_tool_name"),
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
            queries=(Query(expr=_worst("gen_ai_evaluation_name"), legend="{{gen_ai_evaluation_name}}"),),
        ),
    ),
)

_SERVICES = f'{_JOB}, toolgauge_service=~"$service", deployment_environment_name=~"$environment", service_version!=""'
_VERSIONS = f"count by ({_BY_VERSION}) (toolgauge_evaluations_total{{{_SERVICES}}})"
_VERSIONS_BEFORE = f"count by ({_BY_VERSION}) (toolgauge_evaluations_total{{{_SERVICES}}} offset 1m)"
_SERVICES_BEFORE = f"count by (toolgauge_service) (toolgauge_evaluations_total{{{_SERVICES}}} offset 1m)"


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
        _chosen("service", "Service", "toolgauge_service", _JOB),
        _chosen("environment", "Environment", "deployment_environment_name", f'{_JOB}, toolgauge_service=~"$service"'),
        _chosen("agent", "Agent", "gen_ai_agent_name", f'{_JOB}, toolgauge_service=~"$service"'),
        _chosen(
            "tool", "Tool", "gen_ai_tool_name", f'{_JOB}, toolgauge_service=~"$service", gen_ai_agent_name=~"$agent"'
        ),
        _chosen("criterion", "Criterion", "gen_ai_evaluation_name", f'{_JOB}, toolgauge_service=~"$service"'),
        _chosen(
            "level", "Level", "toolgauge_level", f'{_JOB}, toolgauge_service=~"$service"', many=False, first="call"
        ),
    ),
    rows=(_NOW, _WRONG, _OVER_TIME, _RELEASES, _DISTRIBUTION, _BREAKDOWN),
    annotations=(
        Annotation(
            name="Regressions",
            expr=f"{_stream('active')} > 0",
            title="Scores are lower than their baseline",
            text=_STREAM_LEGEND,
            color="red",
        ),
        Annotation(
            name="Versions",
            expr=f"{_VERSIONS} unless {_VERSIONS_BEFORE} and on (toolgauge_service) {_SERVICES_BEFORE}",
            title="A version was seen for the first time",
            text=_VERSION_LEGEND,
            color="blue",
        ),
    ),
)
