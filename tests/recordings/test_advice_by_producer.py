"""Advice fits the producer: checked against all captures, whose truth knows the language and what was really called."""

import re
from collections.abc import Sequence
from itertools import chain

import msgspec

from tests import recovery_table
from tests.captures import Captured
from tests.recordings.corpus import CORPUS, diagnosed, diagnosed_with_trajectories, recordings
from tests.recovery_table import Cell, MadeRun, Truth, cells, compared
from tests.rows import each_row
from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.shortfalls import Fact, producer_of, remedy

LANGUAGES = {"Python": "python", "JavaScript": "nodejs", "Java": "java", "Go": "go", "Rust": "rust", "Kotlin": "kotlin"}

# What only one language has: its packages, and how its options are written.
WRITTEN = {
    "python": re.compile(
        r"=True|=False|= True|using_session|propagate_attributes|set_association_properties|trace_attributes|SPAN_AND_EVENT|"
        r"InstrumentationSettings|RunConfig|@observe|@traced|`TraceConfig`|(?<![\w@/-])(?:openinference|opentelemetry)-[a-z]+-|"
        r"HAYSTACK_|autogen"
    ),
    "nodejs": re.compile(
        r"`@[a-z-]+/|: true|: false|setSession|propagateAttributes|withAssociationProperties|traceAttributes|\bcontext\.with|"
        r"captureMessageContent|traceContent|AI SDK|new Langfuse"
    ),
    "java": re.compile(r"spring\.ai|otel\.instrumentation\.|\bbuilder\(\)|setCapture|ChatMemory"),
    "dotnet": re.compile(r"EnableSensitiveData|UseOpenTelemetry"),
}


# Nothing in these spans shows that calls are missing: they end with what the model said, or with the error of the run.
UNSEEN = {("openinference-openai-js", "stream_parallel"), ("voltagent", "bad_args"), ("voltagent", "bad_json")}


def shares(folder: str, scenario: str, found: Sequence[Trajectory]) -> dict[str, Cell]:
    """Compare the calls of a scenario by column."""
    truth = msgspec.json.decode((CORPUS / folder / f"{scenario}.truth.json").read_bytes(), type=Truth)

    def of(run: MadeRun) -> list[Trajectory]:
        return [trajectory for trajectory in found if trajectory.trace_id in (run.trace_id, *run.other_trace_ids)]

    return cells(chain.from_iterable(compared(run, of(run), None) for run in truth.traces))


def test_no_advice_is_of_another_language(captured: Captured):
    language = LANGUAGES[recovery_table.language(recovery_table.truths_of(CORPUS / captured.folder))]
    for diagnosis in diagnosed([str(file) for file in captured.files()]):
        assert diagnosis.producer.language in {language, ""}
        for missing in diagnosis.missing:
            for other, written in WRITTEN.items():
                assert other == language or not written.search(missing.remedy.how), (missing.fact, missing.remedy.how)


def test_problems_are_those_of_the_truth(captured: Captured):
    assert captured.failures(assert_problems_are_of_the_truth) == {}


def assert_problems_are_of_the_truth(folder: str, scenario: str) -> None:
    diagnoses, trajectories = diagnosed_with_trajectories(recordings(folder, scenario))
    found = shares(folder, scenario, trajectories)
    problems = {missing.fact for one in diagnoses for missing in one.missing if missing.is_problem}
    if all(found[column].word in ("yes", "-") for column in ("calls", "arguments", "results", "failures")):
        assert problems == set(), scenario
    lost = {column for column in ("arguments", "results") if found[column].of and not found[column].right}
    if lost == {"arguments", "results"} and (folder, scenario) not in UNSEEN:
        assert lost <= problems, scenario


@each_row(
    ("scope", "version", "sdk_language", "language"),
    [
        ("@arizeai/openinference-instrumentation-openai", "4.2.7", "", "nodejs"),
        ("com.anthropic.sdk.typescript", "1.12.0", "", "nodejs"),
        ("autogen SingleThreadedAgentRuntime", "", "", "python"),
        ("pydantic-ai", "2.68.0", "", "python"),
        ("io.opentelemetry.openai-java-1.1", "2.31.1-alpha", "", "java"),
        ("io.opentelemetry.contrib.php.openai", "", "", "php"),
        ("org.springframework.boot", "", "", "java"),
        ("github.com/firebase/genkit/go", "", "", "go"),
        ("Experimental.Microsoft.Agents.AI", "", "", "dotnet"),
        ("gcp.vertex.agent", "2.0.0", "", ""),
        ("gcp.vertex.agent", "2.0.0", "nodejs", "nodejs"),
        ("langfuse-sdk", "5.0.4", "webjs", "nodejs"),
        ("my_app.agents", "", "", ""),
    ],
)
def test_the_language_is_that_of_the_sdk_or_the_form_of_the_scope(
    scope: str, version: str, sdk_language: str, language: str
):
    assert producer_of("shop", scope, version, sdk_language).language == language


@each_row(
    ("dialect", "scope", "language", "fact", "switch"),
    [
        ("google_adk", "gcp.vertex.agent", "python", "arguments", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
        ("google_adk", "gcp.vertex.agent", "java", "arguments", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"),
        ("google_adk", "gcp.vertex.agent", "", "arguments", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"),
        ("genai", "io.opentelemetry.openai-java-1.1", "java", "results", "otel.instrumentation.genai.capture-message-content"),
        ("genai", "@opentelemetry/instrumentation-openai", "nodejs", "results", "captureMessageContent"),
        ("genai", "Experimental.Microsoft.Extensions.AI", "dotnet", "results", "EnableSensitiveData"),
        ("genai", "agent_framework", "python", "results", "ENABLE_SENSITIVE_DATA"),
        ("openinference", "@arizeai/openinference-instrumentation-langchain", "nodejs", "conversation_id", "setSession"),
        ("openinference", "com.arize.langchain4j", "java", "conversation_id", "ContextAttributes.sessionId"),
        ("openinference", "ai", "nodejs", "results", "recordOutputs"),
        ("strands", "strands-agents", "nodejs", "conversation_id", "traceAttributes"),
        ("traceloop", "@traceloop/instrumentation-openai", "nodejs", "results", "traceContent"),
        ("langfuse", "langfuse-sdk", "nodejs", "conversation_id", "propagateAttributes"),
    ],
)  # fmt: skip
def test_one_dialect_has_other_switches_in_other_languages(
    dialect: str, scope: str, language: str, fact: Fact, switch: str
):
    assert switch in remedy(fact, producer_of("shop", scope, "", language), (dialect,)).switches


def test_an_older_release_is_advised_to_upgrade_and_a_newer_one_is_not():
    def definitions(version: str) -> str:
        producer = producer_of("shop", "opentelemetry.util.genai.handler", version, "python")
        return remedy("tool_definitions", producer, ("genai",)).how

    assert definitions("0.4b0").startswith("upgrade `opentelemetry-util-genai`")
    assert not definitions("1.3b0").startswith("upgrade")
    assert not definitions("").startswith("upgrade")
