from toolgauge.evaluators.arguments_schema import ArgumentsSchema as ArgumentsSchema
from toolgauge.evaluators.data_flow import DataFlow as DataFlow
from toolgauge.evaluators.error_handling import ErrorHandling as ErrorHandling
from toolgauge.evaluators.faithfulness import Faithfulness as Faithfulness
from toolgauge.evaluators.grounded_arguments import GroundedArguments as GroundedArguments
from toolgauge.evaluators.json_similarity import JsonSimilarity as JsonSimilarity
from toolgauge.evaluators.known_tool import KnownTool as KnownTool
from toolgauge.evaluators.order_rules import OrderRules as OrderRules
from toolgauge.evaluators.output_judge import OutputJudge as OutputJudge
from toolgauge.evaluators.policy import Policy as Policy
from toolgauge.evaluators.repeated_calls import RepeatedCalls as RepeatedCalls
from toolgauge.evaluators.run_checks import Budget as Budget
from toolgauge.evaluators.run_checks import Coverage as Coverage
from toolgauge.evaluators.run_checks import RunCompleted as RunCompleted
from toolgauge.evaluators.run_checks import ToolUse as ToolUse
from toolgauge.evaluators.tool_call_accuracy import ToolCallAccuracy as ToolCallAccuracy
from toolgauge.evaluators.tool_call_args import ToolCallArgs as ToolCallArgs
from toolgauge.evaluators.tool_call_count import ToolCallCount as ToolCallCount
from toolgauge.evaluators.tool_call_f1 import ToolCallF1 as ToolCallF1
from toolgauge.evaluators.tool_call_order import ToolCallOrder as ToolCallOrder
from toolgauge.evaluators.tool_call_output import ToolCallOutput as ToolCallOutput
from toolgauge.evaluators.tool_parameter_accuracy import ToolParameterAccuracy as ToolParameterAccuracy
from toolgauge.evaluators.tool_parameter_match import ToolParameterMatch as ToolParameterMatch
from toolgauge.evaluators.tool_selection_accuracy import ToolSelectionAccuracy as ToolSelectionAccuracy
from toolgauge.evaluators.tool_success import ToolSuccess as ToolSuccess
from toolgauge.evaluators.tool_trajectory import ToolTrajectory as ToolTrajectory
from toolgauge.evaluators.trajectory_judge import TrajectoryJudge as TrajectoryJudge

__all__ = [
    "ArgumentsSchema",
    "Budget",
    "Coverage",
    "DataFlow",
    "ErrorHandling",
    "Faithfulness",
    "GroundedArguments",
    "JsonSimilarity",
    "KnownTool",
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
    "ToolParameterAccuracy",
    "ToolParameterMatch",
    "ToolSelectionAccuracy",
    "ToolSuccess",
    "ToolTrajectory",
    "ToolUse",
    "TrajectoryJudge",
]
