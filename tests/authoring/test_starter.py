"""The files that `toolgauge init` writes."""

from pathlib import Path

from toolgauge.authoring.starter import SeenTools, configuration
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.service.criteria_factory import load_for_replay


def test_one_comment_counts_failures_that_were_made_good(tmp_path: Path):
    text = configuration(SeenTools(), config="toolgauge.yaml", criteria="criteria.yaml")
    (default,) = [line for line in text.splitlines() if line.startswith("defaults: ")]
    (comment,) = [line for line in text.splitlines() if line.startswith("# defaults: ")]
    (tmp_path / "criteria.yaml").write_text("criteria: []\n")
    retries = {}
    for name, written in (("as written", text), ("as the comment", text.replace(default, comment.removeprefix("# ")))):
        file = tmp_path / "toolgauge.yaml"
        file.write_text(written)
        _, criteria = load_for_replay((str(file),), (), (), {})
        retries[name] = [one.evaluator.retries for one in criteria if isinstance(one.evaluator, ToolSuccess)]
    assert retries == {"as written": ["ignore"], "as the comment": ["count"]}
