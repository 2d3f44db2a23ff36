"""The examples of frameworks do what they say.

Run for real, as a user would: pydantic-ai (in process) and the OpenAI client (against a running `toolgauge serve`).
LangGraph and Google ADK are too large to install here: their criteria score what the real frameworks sent when they
were recorded (tests/corpus), and their scripts are compiled.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.command import run
from tests.examples.outsiders import EXAMPLES
from tests.wire.destination import attributes, receiving
from tests.wire.support import CORPUS, environment, serving, to_http, until
from tests.wire.test_producers import completion, model_server

FRAMEWORKS = EXAMPLES / "frameworks"


def run_example(framework: str, **variables: str) -> str:
    return run_script(FRAMEWORKS / framework / "agent.py", **variables)


def run_script(script: Path, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(PYTHONDONTWRITEBYTECODE="1", **variables),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pydantic_ai_in_process():
    with receiving() as destination:
        endpoint = f"http://127.0.0.1:{destination.http_port}"
        printed = run_example("pydantic-ai", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
        assert printed.splitlines()[1:] == [
            "pass: default.run_completed of the run",
            "pass: default.tool_success of find_order",
            "pass: default.known_tool of find_order",
            "pass: default.arguments_schema of find_order",
            "not_evaluated: default.grounded_arguments of the run",
            "not_evaluated: default.one_effect of the run",
            "not_evaluated: default.grounded_answer of the run",
            "pass: default.repeated_calls of find_order",
            "not_evaluated: default.error_handling of the run",
            "not_evaluated: default.honest_answer of the run",
            "pass: default.tool_use of the run",
            "pass: default.coverage of the run",
            "pass: order-looked-up of the run",
        ]
        assert sorted(span.name for span in destination.spans()) == [
            "chat test",
            "chat test",
            "execute_tool find_order",
            "invoke_agent shop_agent",
        ]
        (scorecard,) = destination.scorecards()
        assert attributes(scorecard)["toolgauge.eval.order-looked-up.score"] == 1.0


def test_the_first_agent_fails_for_the_amount_of_its_refund(tmp_path: Path):
    options = ("--config", str(EXAMPLES / "first-agent" / "toolgauge.yaml"), "--print", "failed")
    with serving(tmp_path, options=options) as toolgauge:
        endpoint = f"http://127.0.0.1:{toolgauge.http_port}"
        printed = run_script(EXAMPLES / "first-agent" / "agent.py", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
        assert printed == "You get 40.00 back.\n"
        until(lambda: "half-refunded 0.50" in toolgauge.said(), "the line of the run")
        assert "half-refunded 0.50 (passes at 1): refund_order: amount: expected 20.0, got 40.0" in toolgauge.said()


def test_the_openai_client_and_a_running_toolgauge(tmp_path: Path):
    answers = [
        completion(None, ("call-1", "find_order", '{"order_id": "A-17"}')),
        completion(None, ("call-2", "find_ordr", '{"order_id": "A-17"}')),
        completion("It has been shipped."),
    ]
    criteria = f"criteria_files=[{FRAMEWORKS / 'openai' / 'criteria.yaml'}]"
    with receiving() as destination, serving(tmp_path, to_http(destination.http_port), criteria) as toolgauge:
        with model_server(answers) as url:
            endpoint = f"http://127.0.0.1:{toolgauge.http_port}"
            printed = run_example(
                "openai", OPENAI_BASE_URL=url, OPENAI_API_KEY="none", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint
            )
        assert printed == "It has been shipped.\n"
        until(destination.scorecards, "the scorecard")
        told = [attributes(event) for event in until(destination.events, "events")]
        outcomes = {
            (one["gen_ai.evaluation.name"], one.get("gen_ai.tool.name")): one["toolgauge.outcome"] for one in told
        }
        assert outcomes[("default.tool_success", "find_order")] == "pass"
        assert outcomes[("default.tool_success", "find_ordr")] == "fail"
        assert outcomes[("default.known_tool", "find_ordr")] == "fail"
        assert ("right-order", None) in outcomes


def replayed(framework: str, *recording: Path) -> dict[str, object]:
    criteria = ("--fail-on", "nothing", "--criteria", str(FRAMEWORKS / framework / "criteria.yaml"))
    done = run("check", "--json", *criteria, *map(str, recording))
    assert done.code == 0, done.err
    results = [json.loads(line) for line in done.out.splitlines()]
    written = [result for result in results if not result["criterion"].startswith("default.")]
    return {result["criterion"]: result["outcome"] for result in written if result["level"] == "trajectory"}


def test_langgraph_s_criteria_over_a_recorded_run():
    run = sorted((CORPUS / "openinference-langgraph").glob("sequence.*.otlp.pb"))
    assert replayed("langgraph", *run) == {"right-refund": "pass", "looked-before-refunding": "pass"}
    other = CORPUS / "openinference-langgraph" / "single.otlp.pb"
    assert replayed("langgraph", other)["looked-before-refunding"] == "fail"


def test_google_adk_s_criteria_over_a_recorded_run():
    run = sorted((CORPUS / "google-adk").glob("sequence3_full.*pb"))
    assert replayed("google-adk", *run) == {"mail-to-the-right-user": "pass"}
    without_content = sorted((CORPUS / "google-adk").glob("content_off.*pb"))
    assert replayed("google-adk", *without_content)["mail-to-the-right-user"] != "pass"


def test_the_lines_of_the_page_are_all_that_is_needed():
    page = (EXAMPLES.parent / "docs" / "python.md").read_text()
    (lines,) = re.findall(r"```python\n(from opentelemetry.*?)```", page, re.DOTALL)
    run = """
from opentelemetry import trace
tracer = provider.get_tracer("application")
with tracer.start_as_current_span("run", attributes={"gen_ai.operation.name": "invoke_agent"}):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_order"}
    with tracer.start_as_current_span("tool", attributes=attributes):
        pass
"""
    with receiving() as destination:
        endpoint = f"http://127.0.0.1:{destination.http_port}"
        subprocess.run(
            [sys.executable, "-c", lines + run],
            check=True,
            timeout=300,
            env=environment(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint),
        )
        assert [span.name for span in destination.spans()] == ["tool", "run"]
        assert len(destination.scorecards()) == 1
