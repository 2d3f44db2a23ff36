"""Scores golden cases with the package of one peer, in whichever environment that package is installed.

    python score_originals.py PEER FILE...        # PEER: uipath, ragas, adk, agentevals, deepeval

Stands alone: it imports nothing of toolgauge. Says first, as one line of JSON, which cases it scored and how; after
that every line on standard input asks for one round, answered by the CPU seconds that it took.
`built` scores objects that are there already, `read` makes them of the case's JSON first.
"""

import asyncio
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path

_SECONDS = 0.1


class Uipath:
    """`validate_and_evaluate_criteria`, which is what the runtime of UiPath calls."""

    def __init__(self):
        from opentelemetry.sdk.trace import ReadableSpan
        from uipath.eval import evaluators
        from uipath.eval.models import WorkloadExecution

        self._span, self._execution = ReadableSpan, WorkloadExecution
        self._kinds = {
            "tool_call_args": evaluators.ToolCallArgsEvaluator,
            "tool_call_output": evaluators.ToolCallOutputEvaluator,
            "tool_call_order": evaluators.ToolCallOrderEvaluator,
            "tool_call_count": evaluators.ToolCallCountEvaluator,
            "json_similarity": evaluators.JsonSimilarityEvaluator,
        }

    def evaluator(self, name, config):
        return self._kinds[name].model_validate({"id": "bench", "evaluatorConfig": {"name": "bench", **config}})

    def build(self, case):
        actual = case["actual"]
        spans = [self._span(name=span.get("name", ""), attributes=span.get("attributes")) for span in actual.get("spans", [])]
        execution = self._execution(agent_input={}, workload_output=actual.get("output", {}), workload_trace=spans)
        return execution, case["expected"]

    async def score(self, evaluator, built):
        return (await evaluator.validate_and_evaluate_criteria(*built)).score


class Ragas:
    """`multi_turn_ascore` of the metric."""

    def __init__(self):
        from ragas import messages, metrics
        from ragas.dataset_schema import MultiTurnSample

        self._messages, self._sample = messages, MultiTurnSample
        self._kinds = {"tool_call_f1": metrics.ToolCallF1, "tool_call_accuracy": metrics.ToolCallAccuracy}

    def evaluator(self, name, config):
        return self._kinds[name](**config)

    def build(self, case):
        wanted = [self._messages.ToolCall(**_call(call)) for call in case["expected"]["tool_calls"]]
        made = [self._message(message) for message in case["actual"]["messages"]]
        return self._sample(user_input=made, reference_tool_calls=wanted)

    def _message(self, written):
        kinds = self._messages
        if written["role"] == "user":
            return kinds.HumanMessage(content=written["content"])
        if written["role"] == "tool":
            return kinds.ToolMessage(content=written["content"])
        calls = [kinds.ToolCall(**_call(call)) for call in written.get("tool_calls", ())]
        return kinds.AIMessage(content=written["content"], tool_calls=calls)

    async def score(self, evaluator, built):
        return await evaluator.multi_turn_ascore(built)


class Adk:
    """`evaluate_invocations` of the evaluator that the registry of metrics gives out, as the eval service calls it."""

    def __init__(self):
        from google.adk.evaluation import eval_case, eval_metrics
        from google.adk.evaluation.metric_evaluator_registry import DEFAULT_METRIC_EVALUATOR_REGISTRY
        from google.genai import types

        self._case, self._metrics, self._types = eval_case, eval_metrics, types
        self._registry = DEFAULT_METRIC_EVALUATOR_REGISTRY

    def evaluator(self, name, config):
        assert name == "tool_trajectory"
        criterion = self._metrics.ToolTrajectoryCriterion(**{"threshold": 1.0, **config})
        return self._metrics.EvalMetric(metric_name="tool_trajectory_avg_score", criterion=criterion)

    def build(self, case):
        return tuple(
            [self._invocation(one) for one in case[side]["invocations"]] for side in ("actual", "expected")
        )

    def _invocation(self, written):
        calls = [self._types.FunctionCall(name=call["name"], args=call.get("args")) for call in written["calls"] or ()]
        return self._case.Invocation(
            user_content=self._types.Content(parts=[self._types.Part(text="q")]),
            intermediate_data=self._case.IntermediateData(tool_uses=calls),
        )

    async def score(self, evaluator, built):
        return self._registry.get_evaluator(evaluator).evaluate_invocations(*built).overall_score


class Agentevals:
    """The evaluator that `create_trajectory_match_evaluator` makes."""

    def __init__(self):
        from agentevals.trajectory.match import create_trajectory_match_evaluator

        self._create = create_trajectory_match_evaluator

    def evaluator(self, name, config):
        assert name == "trajectory_match"
        return self._create(**config)

    def build(self, case):
        return tuple([self._message(one) for one in case[side]["messages"]] for side in ("actual", "expected"))

    def _message(self, written):
        if not written.get("tool_calls"):
            return {key: value for key, value in written.items() if key != "tool_calls"}
        calls = [
            {
                "type": "function",
                "id": call.get("id", ""),
                "function": {"name": call["name"], "arguments": call["arguments"] if "arguments" in call else json.dumps(call["args"])},
            }
            for call in written["tool_calls"]
        ]
        return {**written, "tool_calls": calls}

    async def score(self, evaluator, built):
        return float(evaluator(outputs=built[0], reference_outputs=built[1])["score"])


class Deepeval:
    """`measure` of the metric; it wants a judge and asks it nothing."""

    def __init__(self):
        os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
        from deepeval.metrics import ToolCorrectnessMetric
        from deepeval.models import DeepEvalBaseLLM
        from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams

        class Silent(DeepEvalBaseLLM):
            def load_model(self, *args, **kwargs):
                return self

            def generate(self, *args, **kwargs):
                raise NotImplementedError

            async def a_generate(self, *args, **kwargs):
                raise NotImplementedError

            def get_model_name(self):
                return "silent"

        self._metric, self._case, self._call, self._params = ToolCorrectnessMetric, LLMTestCase, ToolCall, ToolCallParams
        self._model = Silent()

    def evaluator(self, name, config):
        assert name == "tool_correctness"
        params = [self._params[param.upper()] for param in config.get("evaluation_params", ())]
        return self._metric(**{**config, "evaluation_params": params}, model=self._model, async_mode=False)

    def build(self, case):
        made, wanted = ([self._tool(call) for call in case[side]["calls"]] for side in ("actual", "expected"))
        return self._case(input="q", actual_output="a", tools_called=made, expected_tools=wanted)

    def _tool(self, written):
        return self._call(name=written["name"], input_parameters=written.get("args"), output=written.get("output"))

    async def score(self, evaluator, built):
        return evaluator.measure(built, _show_indicator=False)


def _call(written):
    return {"name": written["name"], "args": written.get("args", {})}


async def main():
    peer_name, *files = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    peer = {"uipath": Uipath, "ragas": Ragas, "adk": Adk, "agentevals": Agentevals, "deepeval": Deepeval}[peer_name]()
    prepared, scores, evaluators = {}, {}, {}
    for file in files:
        for line in Path(file).read_text().splitlines():
            case = json.loads(line)
            name, config = case["evaluator"].partition(".")[2], case.get("config", {})
            key = (name, json.dumps(config, sort_keys=True))
            try:
                evaluators[key] = evaluators.get(key) or peer.evaluator(name, config)
                built = peer.build(case)
                score = await peer.score(evaluators[key], built)
            except Exception as error:  # a case that the original has an error for is not measured
                scores[case["id"]] = {"error": repr(error)[:200]}
                continue
            scores[case["id"]] = {"score": None if score is None else float(score)}
            prepared[case["id"]] = (case, evaluators[key], built)
    print(json.dumps(scores), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = [prepared[one] for one in json.loads(line)]
        print(json.dumps({"built": await measured(peer, asked, False), "read": await measured(peer, asked, True)}), flush=True)


async def measured(peer, asked, is_read):
    """Return the CPU seconds of one pass over the cases, the mean over as many as fit."""
    passes, begin = 0, time.process_time()
    while True:
        for case, evaluator, built in asked:
            await peer.score(evaluator, peer.build(case) if is_read else built)
        passes += 1
        spent = time.process_time() - begin
        if spent >= _SECONDS:
            return spent / passes


if __name__ == "__main__":
    asyncio.run(main())
