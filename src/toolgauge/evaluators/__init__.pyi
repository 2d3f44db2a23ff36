from toolgauge.evaluators.answer_checks import GroundedAnswer as GroundedAnswer
from toolgauge.evaluators.answer_checks import HonestAnswer as HonestAnswer
from toolgauge.evaluators.arguments_schema import ArgumentsSchema as ArgumentsSchema
from toolgauge.evaluators.data_flow import DataFlow as DataFlow
from toolgauge.evaluators.error_handling import ErrorHandling as ErrorHandling
from toolgauge.evaluators.expected_arguments import ToolCallAccuracy as ToolCallAccuracy
from toolgauge.evaluators.expected_arguments import ToolCallArgs as ToolCallArgs
from toolgauge.evaluators.expected_arguments import ToolParameterMatch as ToolParameterMatch
from toolgauge.evaluators.expected_arguments import ToolTrajectory as ToolTrajectory
from toolgauge.evaluators.expected_calls import ToolCallCount as ToolCallCount
from toolgauge.evaluators.expected_calls import ToolCallF1 as ToolCallF1
from toolgauge.evaluators.expected_calls import ToolCallOrder as ToolCallOrder
from toolgauge.evaluators.grounded_arguments import GroundedArguments as GroundedArguments
from toolgauge.evaluators.llm_judges import Faithfulness as Faithfulness
from toolgauge.evaluators.llm_judges import OutputJudge as OutputJudge
from toolgauge.evaluators.llm_judges import ToolParameterAccuracy as ToolParameterAccuracy
from toolgauge.evaluators.llm_judges import ToolSelectionAccuracy as ToolSelectionAccuracy
from toolgauge.evaluators.llm_judges import TrajectoryJudge as TrajectoryJudge
from toolgauge.evaluators.order_rules import OrderRules as OrderRules
from toolgauge.evaluators.outputs import JsonSimilarity as JsonSimilarity
from toolgauge.evaluators.outputs import ToolCallOutput as ToolCallOutput
from toolgauge.evaluators.policy import Policy as Policy
from toolgauge.evaluators.repeated_calls import OneEffect as OneEffect
from toolgauge.evaluators.repeated_calls import RepeatedCalls as RepeatedCalls
from toolgauge.evaluators.run_checks import Budget as Budget
from toolgauge.evaluators.run_checks import Coverage as Coverage
from toolgauge.evaluators.run_checks import RunCompleted as RunCompleted
from toolgauge.evaluators.run_checks import ToolUse as ToolUse
from toolgauge.evaluators.tool_checks import KnownTool as KnownTool
from toolgauge.evaluators.tool_checks import ToolContract as ToolContract
from toolgauge.evaluators.tool_checks import ToolSuccess as ToolSuccess

__all__ = [
    "ArgumentsSchema",
    "Budget",
    "Coverage",
    "DataFlow",
    "ErrorHandling",
    "Faithfulness",
    "GroundedAnswer",
    "GroundedArguments",
    "HonestAnswer",
    "JsonSimilarity",
    "KnownTool",
    "OneEffect",
    "OrderRules",
    "OutputJudge",
    "Policy",
    "RepeatedCalls",
    "RunCompleted",
    "ToolCallAccuracy",
    "ToolCallArgs",
    "ToolCallCount",
    "ToolCallF1",
    "ToolCallOrder",
    "ToolCallOutput",
    "ToolContract",
    "ToolParameterAccuracy",
    "ToolParameterMatch",
    "ToolSelectionAccuracy",
    "ToolSuccess",
    "ToolTrajectory",
    "ToolUse",
    "TrajectoryJudge",
]
