"""What the dashboard of quality asks Prometheus: sums and ratios of scores, and what the detectors know."""

RATE = "$__rate_interval"
JOB = 'job=~"$job"'
AGENTS = (
    f'{JOB}, toolgauge_service=~"$service", deployment_environment_name=~"$environment", gen_ai_agent_name=~"$agent"'
)
CALLS = f'{AGENTS}, gen_ai_tool_name=~"$tool"'
SCORES = f'{CALLS}, gen_ai_evaluation_name=~"$criterion", toolgauge_level="$level"'
WITH_SCORE = '=~"pass|fail"'
# Criteria that are only tried out count nowhere but in the panels that show criteria one by one.
ENFORCED = f'{SCORES}, toolgauge_enforce!="shadow"'
STREAM = (
    "toolgauge_service, deployment_environment_name, gen_ai_agent_name, gen_ai_tool_name, gen_ai_evaluation_name, "
    "toolgauge_criterion_revision, toolgauge_level"
)
STREAM_LEGEND = "{{gen_ai_agent_name}} {{gen_ai_tool_name}} {{gen_ai_evaluation_name}}"


def rate(metric: str, matchers: str, by: str = "") -> str:
    """Add up the rates of a counter, all in one or by labels."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{matchers}}}[{RATE}]))"


def ratio(above: str, below: str) -> str:
    """Divide where there is something to divide by: no data is better than a wrong 0."""
    return f"{above} / ({below} > 0)"


def mean(by: str) -> str:
    """Return the mean score, which is exact whatever the buckets are."""
    return ratio(rate("toolgauge_evaluation_score_sum", ENFORCED, by), count(by))


def count(by: str) -> str:
    """Return the scores a second."""
    return rate("toolgauge_evaluation_score_count", ENFORCED, by)


def evaluations(outcome: str, by: str = "", of: str = ENFORCED) -> str:
    """Return the evaluations a second with some outcomes, which `outcome` matches."""
    return rate("toolgauge_evaluations_total", f"{of}, toolgauge_outcome{outcome}", by)


def share(outcome: str, by: str = "", of: str = ENFORCED) -> str:
    """Return the share that evaluations with these outcomes are of those with a score."""
    return ratio(evaluations(outcome, by, of), evaluations(WITH_SCORE, by, of))


def or_none(part: str, whole: str) -> str:
    """Return 0 where there is a whole and no part of it: a series begins with the first thing that it counts."""
    return f"({part} or 0 * {whole})"


# Tool calls a second, those that failed, and those of them that a later call made good.
CALLED = rate("toolgauge_tool_calls_total", CALLS)
FAILED = or_none(rate("toolgauge_tool_calls_total", f'{CALLS}, error_type!=""'), CALLED)
RECOVERED = rate("toolgauge_tool_calls_total", f'{CALLS}, toolgauge_recovered="true"')


def of_success(measure: str) -> str:
    """Return the sum over all runs by the number of runs that passed."""
    runs = f"toolgauge_trajectory_{measure}"
    return ratio(rate(f"{runs}_sum", AGENTS), rate(f"{runs}_count", f'{AGENTS}, toolgauge_outcome="pass"'))


def stream(metric: str, by: str = STREAM) -> str:
    """Read one value a stream where several processes may report it."""
    return f"max by ({by}) (toolgauge_regression_{metric}{{{SCORES}}})"


def of_alarms(expr: str) -> str:
    """Keep only streams whose alarm is on."""
    return f"({expr}) and on ({STREAM}) ({stream('active')} > 0)"


# When a stream was last seen without an alarm, in milliseconds.
SINCE = f"1000 * max by ({STREAM}) (max_over_time(timestamp(toolgauge_regression_active{{{SCORES}}} == 0)[$__range:$__interval]))"
# The version whose scores were first seen last, and when, in milliseconds.
NEWEST_VERSION = (
    f"topk by ({STREAM}) (1, max by ({STREAM}, service_version) "
    f'(min_over_time(timestamp(toolgauge_evaluation_score_count{{{SCORES}, service_version!=""}})[$__range:$__interval])) * 1000)'
)


BY_VERSION = "toolgauge_service, service_version"
BUCKETS = "toolgauge_evaluation_score_bucket"
# Criteria that cannot fail have no bucket of 0, and those that score only 0 or 1 have no other.
_OF_ZERO = f'{BUCKETS}{{{ENFORCED}, le=~"0|0.0"}}'
ZERO = f"sum (rate({_OF_ZERO}[{RATE}]))"
ALL = f'sum (rate({BUCKETS}{{{ENFORCED}, le="+Inf"}}[{RATE}]) and ignoring (le) {_OF_ZERO})'
BETWEEN = or_none(
    f'sum (rate({BUCKETS}{{{ENFORCED}, le="0.999"}}[{RATE}]) - ignoring (le) rate({_OF_ZERO}[{RATE}]))', ALL
)
GRADED = f'{BUCKETS}{{{ENFORCED}}}[{RATE}]) and ignoring (le) {BUCKETS}{{{ENFORCED}, le="0.5"}}'


def worst(by: str) -> str:
    """Return the ten largest drops below a baseline."""
    return f"topk(10, max by ({by}) ({stream('baseline')} - {stream('current')}))"


SERVICES = f'{JOB}, toolgauge_service=~"$service", deployment_environment_name=~"$environment", service_version!=""'
VERSIONS = f"count by ({BY_VERSION}) (toolgauge_evaluations_total{{{SERVICES}}})"
VERSIONS_BEFORE = f"count by ({BY_VERSION}) (toolgauge_evaluations_total{{{SERVICES}}} offset 1m)"
SERVICES_BEFORE = f"count by (toolgauge_service) (toolgauge_evaluations_total{{{SERVICES}}} offset 1m)"
