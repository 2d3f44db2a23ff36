"""What the cell of a notebook shows: hostile text is escaped, and nothing is loaded or run."""

import json
import re
from html.parser import HTMLParser

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import toolgauge

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\"'`"
KEY = "sk-abcdefghijklmnopqrstuvwxyz0123"


class Tags(HTMLParser):
    """Collects tags and the names of attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    assert tags.open == []
    return tags


def hostile_evaluation(*, count: int = 1, overrides: tuple[str, ...] = ()) -> toolgauge.Evaluation:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")
    for _ in range(count):
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": HOSTILE}
        with tracer.start_as_current_span("invoke_agent", attributes=agent):
            call = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": f"pay{HOSTILE}",
                "gen_ai.tool.call.arguments": json.dumps({HOSTILE: HOSTILE, "note": KEY, "amount": 7}),
                "gen_ai.tool.call.result": HOSTILE,
            }
            with tracer.start_as_current_span("execute_tool", attributes=call):
                pass
    expected = {"name": f"pay{HOSTILE}", "args": {HOSTILE: f"{HOSTILE}!", "note": KEY, "amount": 5}}
    criterion = toolgauge.Criterion("paid", toolgauge.evaluators.ToolCallArgs(), expected=[expected])
    return toolgauge.evaluate(exporter.get_finished_spans(), criterion, overrides=overrides)


def html_of(shown_object: toolgauge.Evaluation | toolgauge.EvaluatedTrajectory) -> str:
    return shown_object._repr_html_()  # pyright: ignore[reportPrivateUsage] # what notebooks call


def test_hostile_text_is_escaped():
    evaluation = hostile_evaluation()
    for html in (html_of(evaluation), html_of(evaluation.trajectories[0])):
        tags = shown(html)
        assert not {"script", "img", "link", "iframe"} & set(tags.tags)
        assert not [name for name in tags.attributes if name.startswith("on") or name in ("src", "style")]
        assert "&lt;script&gt;alert(1)" in html
        assert "\u202e" not in html


def test_it_stands_alone():
    html = html_of(hostile_evaluation())
    assert html.startswith('<div class="toolgauge"><style>')
    assert "http:" not in html
    assert "https:" not in html
    assert all(href.startswith("#tg-") for href in re.findall(r'href="([^"]*)"', html))
    style = html.partition("<style>")[2].partition("</style>")[0]
    selectors = [part.strip() for rule in style.split("}")[:-1] for part in rule.partition("{")[0].split(",")]
    assert all(".toolgauge" in selector for selector in selectors)


def test_expected_stands_beside_actual_and_secrets_are_masked():
    evaluation = hostile_evaluation()
    html = html_of(evaluation)
    assert '<ins class="expected">5</ins>' in html
    assert '<del class="actual">7</del>' in html
    for text in (html, str(evaluation), repr(evaluation), evaluation.why):
        assert KEY not in text


def test_values_are_hidden_where_the_configuration_hides_them():
    evaluation = hostile_evaluation(overrides=("redact.values=hide",))
    html = html_of(evaluation)
    assert '<ins class="expected">5</ins>' not in html
    assert "Values are hidden" in html
    (result,) = evaluation["paid"]
    amount = next(one for one in result.differences if one.where.endswith("amount"))
    assert (amount.expected, amount.actual) == ("a number", "a number")


def test_of_many_trajectories_the_first_are_shown():
    html = html_of(hostile_evaluation(count=23))
    assert html.count("<summary>") >= 20
    assert "and 3 more trajectories" in html
