"""The dashboards, as far as they can be checked without Grafana: fields, rules and expressions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.dashboards.generate import files
from tests.deploy.dashboards import BUILT_IN, FILES, everything, filled, panels, queries, read, variables
from tests.deploy.files import DEPLOY, document
from tests.deploy.promql import known, unknown
from tests.rows import each_row

PERSES = sorted((DEPLOY / "perses").glob("*.json"))
PROVISIONING = DEPLOY / "grafana" / "provisioning"
# Of Prometheus' data source; the models of annotations know what all data sources have.
_ANNOTATION_TEXTS = ("step", "textFormat", "titleFormat")


def name(file: Path) -> str:
    return file.stem


each_dashboard = each_row("file", FILES, ids=name)


def test_the_committed_files_are_those_that_the_code_writes():
    for path, content in files().items():
        assert path.read_text() == content, f"run `python -m deploy.dashboards.generate`: {path}"
    assert set(files()) == {*FILES, *PERSES}


@each_dashboard
def test_every_field_is_one_that_grafana_knows(file: Path):
    dashboard = read(file)
    for annotation in dashboard["annotations"]["list"]:
        for key in _ANNOTATION_TEXTS:
            del annotation[key]
    plugins.register_default_plugins()
    again = json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))
    assert again == dashboard


# -- the rules of good dashboards -----------------------------------------------------------------------------------------


@each_dashboard
def test_a_dashboard_is_small_says_what_it_is_for_and_links_the_other(file: Path):
    dashboard = read(file)
    assert dashboard["uid"] == file.stem
    drawn = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len(drawn) <= 20
    assert drawn[0]["type"] == "text"
    assert len(drawn[0]["options"]["content"]) > 100
    assert dashboard["description"]
    assert dashboard["editable"] is False
    assert "stat" in {panel["type"] for panel in drawn[1:3]}
    assert "toolgauge" in dashboard["tags"]
    (link,) = dashboard["links"]
    assert (link["type"], link["tags"]) == ("dashboards", ["toolgauge"])
    assert link["keepTime"] is link["includeVars"] is True


@each_dashboard
def test_every_panel_has_title_description_unit_legend_and_a_chosen_data_source(file: Path):
    for panel in panels(read(file)):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
        if panel["type"] == "timeseries":
            legend = panel["options"]["legend"]
            assert (legend["displayMode"], legend["calcs"]) == ("table", ["mean", "lastNotNull"])


@each_dashboard
def test_every_expression_names_the_job_and_grafanas_rate_interval(file: Path):
    dashboard = read(file)
    expressions = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    for expr in expressions:
        selectors = re.findall(r"[a-z_]+\{[^}]*\}", expr)
        assert selectors
        assert all('job=~"$job"' in selector for selector in selectors), expr
        assert not re.search(r"\b[a-z_]+_(total|bucket|sum|count)\b(?!\{)(?![\w ]*\()", expr), expr
        assert set(re.findall(r"(?:rate|increase)\([^\[]*\[([^\]]+)\]", expr)) <= {"$__rate_interval"}


@each_dashboard
def test_every_variable_that_is_used_is_defined_and_every_defined_one_is_used(file: Path):
    dashboard = read(file)
    asked = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    asked += [annotation["expr"] for annotation in dashboard["annotations"]["list"]]
    asked += [variable["query"]["query"] for variable in variables(dashboard).values()]
    used = {found for text in asked for found in re.findall(r"\$\{?(\w+)\}?", text)} - set(BUILT_IN)
    assert used == set(variables(dashboard))
    names = [entry["name"] for entry in dashboard["templating"]["list"]]
    assert len(set(names)) == len(names)
    assert {"datasource", *used} <= set(names)
    for variable in variables(dashboard).values():
        assert variable["refresh"] == 2, "when the time range changes"


@each_dashboard
def test_levels_are_never_mixed(file: Path):
    dashboard = read(file)
    for panel in panels(dashboard):
        for target in panel["targets"]:
            for selector in re.findall(r"toolgauge_(?:evaluation_score|regression)_\w+\{[^}]*\}", target["expr"]):
                assert 'toolgauge_level="$level"' in selector
    chosen = variables(dashboard).get("level")
    assert chosen is None or (chosen["multi"], chosen["includeAll"]) == (False, False)


def test_what_is_a_share_is_shown_as_one_and_divides_only_where_there_is_something():
    for asked in queries():
        if " / " in asked.expr and "histogram_quantile" not in asked.expr:
            assert " > 0)" in asked.expr, asked


def test_the_stat_of_alarms_links_to_the_table_which_is_sorted_by_evidence_and_links_to_traces():
    shown = {panel["title"]: panel for panel in panels(read(DEPLOY / "grafana/dashboards/toolgauge-quality.json"))}
    table = shown["What is wrong"]
    (link,) = shown["Streams in alarm"]["fieldConfig"]["defaults"]["links"]
    assert f"viewPanel={table['id']}&" in link["url"]
    assert table["options"]["sortBy"] == [{"displayName": "Evidence", "desc": True}]
    overrides = {each["matcher"]["options"]: each["properties"] for each in table["fieldConfig"]["overrides"]}
    ((link,),) = [each["value"] for each in overrides["Evidence"] if each["id"] == "links"]
    assert "toolgauge.scorecard" in link["url"]
    assert "${__data.fields.Tool}" in link["url"]


# -- expressions ------------------------------------------------------------------------------------------------------------


def test_every_metric_and_label_of_an_expression_is_there():
    series, chosen = known(), {file.stem: everything(read(file)) for file in FILES}
    missing = {
        (asked.dashboard, asked.panel, asked.ref): found
        for asked in queries()
        if (found := list(unknown(filled(asked.expr, chosen[asked.dashboard]), series)))
    }
    assert missing == {}
    for file in FILES:
        for variable in variables(read(file)).values():
            asked = filled(variable["query"]["query"], chosen[file.stem])
            selector, _, label = asked.removeprefix("label_values(").removesuffix(")").rpartition(", ")
            assert list(unknown(f"sum by ({label}) ({selector})", series)) == [], asked


def test_promtool_accepts_every_expression(tmp_path: Path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on this machine")
    chosen = {file.stem: everything(read(file)) for file in FILES}
    rules = [
        {"record": f"panel:query{number}:value", "expr": filled(asked.expr, chosen[asked.dashboard])}
        for number, asked in enumerate(queries())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_a_version_is_marked_for_a_minute_from_when_it_is_first_seen(tmp_path: Path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on this machine")
    chosen = everything(read(DEPLOY / "grafana/dashboards/toolgauge-quality.json"))
    (marked,) = [filled(asked.expr, chosen) for asked in queries() if asked.panel == "Versions"]
    labels = 'job="toolgauge", toolgauge_service="shop"'
    series = {"1.0": "0+1x40", "1.1": "_x20 0+1x20"}
    found = [{"labels": '{toolgauge_service="shop", service_version="1.1"}', "value": 1}]
    asked_at = {"1m": [], "4m45s": [], "5m15s": found, "5m45s": found, "6m15s": []}
    checks = [{"expr": marked, "eval_time": time, "exp_samples": samples} for time, samples in asked_at.items()]
    file = tmp_path / "test.yaml"
    inputs = [
        {"series": f'toolgauge_evaluations_total{{{labels}, service_version="{version}"}}', "values": values}
        for version, values in series.items()
    ]
    group = {"interval": "15s", "input_series": inputs, "promql_expr_test": checks}
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": [group]}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# -- Perses -----------------------------------------------------------------------------------------------------------------


@each_row("file", PERSES, ids=name)
def test_a_perses_dashboard_shows_every_panel_once_and_asks_what_that_of_grafana_asks(file: Path):
    dashboard = read(file)
    spec, grafana = dashboard["spec"], read(DEPLOY / "grafana" / "dashboards" / file.name)
    assert dashboard["metadata"] == {"name": file.stem, "project": "toolgauge"}
    items = [item for layout in spec["layouts"] for item in layout["spec"]["items"]]
    shown = [item["content"]["$ref"].removeprefix("#/spec/panels/") for item in items]
    assert sorted(shown) == sorted(spec["panels"])
    titles = {panel["spec"]["display"]["name"] for panel in spec["panels"].values()}
    assert titles == {panel["title"] for panel in grafana["panels"] if panel["type"] != "row"}
    asked = {
        query["spec"]["plugin"]["spec"]["query"]
        for panel in spec["panels"].values()
        for query in panel["spec"].get("queries", [])
    }
    expressions = {target["expr"] for panel in panels(grafana) for target in panel["targets"]}
    # Perses draws no exemplars, and one query of Grafana's is there for nothing else.
    assert {expr for expr in expressions - asked if not expr.endswith(" < 0")} == set()
    assert asked <= expressions
    used = {found for expr in asked for found in re.findall(r"\$\{?(\w+)\}?", expr)} - set(BUILT_IN)
    assert used <= {variable["spec"]["name"] for variable in spec["variables"]}


# -- provisioning ---------------------------------------------------------------------------------------------------------


def test_the_provisioned_sources_lead_from_exemplars_to_traces():
    sources = {
        source["type"]: cast("dict[str, Any]", source)
        for source in document(PROVISIONING / "datasources" / "sources.yaml")["datasources"]
    }
    assert set(sources) == {"prometheus", "tempo"}
    (destination,) = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert destination == {"name": "trace_id", "datasourceUid": sources["tempo"]["uid"]}


def test_the_provisioned_folder_is_where_the_dashboards_are_mounted():
    (provider,) = document(PROVISIONING / "dashboards" / "folder.yaml")["providers"]
    assert provider["type"] == "file"
    mounts = document(DEPLOY / "docker" / "compose.yaml")["services"]["grafana"]["volumes"]
    folders = {target: source for source, target, *_ in (mount.split(":") for mount in mounts)}
    assert folders[provider["options"]["path"]] == "../grafana/dashboards"
    assert folders["/etc/grafana/provisioning"] == "../grafana/provisioning"
