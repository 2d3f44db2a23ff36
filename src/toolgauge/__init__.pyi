from toolgauge import evaluators as evaluators
from toolgauge.api.check import check as check
from toolgauge.api.evaluation import CriterionResult as CriterionResult
from toolgauge.api.evaluation import EvaluatedTrajectory as EvaluatedTrajectory
from toolgauge.api.evaluation import Evaluation as Evaluation
from toolgauge.api.mark import mark as mark
from toolgauge.api.written_criterion import Criterion as Criterion
from toolgauge.model.errors import ConfigError as ConfigError
from toolgauge.model.errors import RecordingError as RecordingError
from toolgauge.model.errors import ToolgaugeError as ToolgaugeError
from toolgauge.model.expected import Expected as Expected
from toolgauge.model.outcomes import NotEvaluated as NotEvaluated
from toolgauge.model.outcomes import Scored as Scored
from toolgauge.model.trajectory import ToolCall as ToolCall
from toolgauge.model.trajectory import Trajectory as Trajectory

__all__ = [
    "ConfigError",
    "Criterion",
    "CriterionResult",
    "EvaluatedTrajectory",
    "Evaluation",
    "Expected",
    "NotEvaluated",
    "RecordingError",
    "Scored",
    "ToolCall",
    "ToolgaugeError",
    "Trajectory",
    "check",
    "evaluators",
    "mark",
]

evaluate = check
