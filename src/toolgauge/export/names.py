"""Attribute names that are written, and the values that several of them share.

Names under `gen_ai.`, `error.`, `session.` and `openinference.` are defined by their conventions; ours begin with `toolgauge.`.
"""

SCOPE = "toolgauge"
EVENT_NAME = "gen_ai.evaluation.result"
SCORECARD_NAME = "toolgauge.scorecard"
OTHER = "_other"

SERVICE = "toolgauge.service"
AGENT = "gen_ai.agent.name"
TOOL = "gen_ai.tool.name"
CRITERION = "gen_ai.evaluation.name"
SCORE_VALUE = "gen_ai.evaluation.score.value"
SCORE_LABEL = "gen_ai.evaluation.score.label"
EXPLANATION = "gen_ai.evaluation.explanation"
CALL_ID = "gen_ai.tool.call.id"
CONVERSATION = "gen_ai.conversation.id"
SESSION = "session.id"
ERROR_TYPE = "error.type"
SPAN_KIND = "openinference.span.kind"

REVISION = "toolgauge.criterion.revision"
LEVEL = "toolgauge.level"
OUTCOME = "toolgauge.outcome"
REASON = "toolgauge.not_evaluated.reason"
ENFORCE = "toolgauge.enforce"
SHADOW = "toolgauge.shadow"
EVALUATOR = "toolgauge.evaluator.name"
EVALUATOR_VERSION = "toolgauge.evaluator.version"
SPAN_END = "toolgauge.span.end_time_unix_nano"
JUDGED_SPAN = "toolgauge.judged.span_id"
CLOSED_BECAUSE = "toolgauge.closed_because"
SCOPE_OF_TRAJECTORY = "toolgauge.trajectory.scope"


def on_span(criterion: str, field: str) -> str:
    """Name a criterion's field on a span: `toolgauge.eval.<criterion>.<field>`."""
    return f"toolgauge.eval.{criterion}.{field}"
