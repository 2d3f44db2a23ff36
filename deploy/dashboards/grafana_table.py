"""The table of streams as Grafana reads it: columns, and a link from each line to the traces that did not pass."""

import json
from urllib.parse import quote

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

TRACES = "tracesource"
# Columns of the table, in order. Labels keep their own names in queries and get these in the table.
_LABEL_COLUMNS = {
    "toolgauge_service": "Service",
    "deployment_environment_name": "Environment",
    "gen_ai_agent_name": "Agent",
    "gen_ai_tool_name": "Tool",
    "gen_ai_evaluation_name": "Criterion",
    "service_version": "Version",
}
_HIDDEN_COLUMNS = ("Time", "toolgauge_criterion_revision", "toolgauge_level")
_COUNTED_COLUMN = "Observations"
_TIME_COLUMNS = ("Since", "Version since")
_EVIDENCE_COLUMN = "Evidence"


def stream_table() -> table.Panel:
    """Put the queries of the panel beside each other, one line a stream, and sort by the evidence."""
    return (
        table.Panel()
        .align(common_models.FieldTextAlignment.AUTO)
        .inspect(False)
        .cell_options(common_models.TableAutoCellOptions())
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(models.DataTransformerConfig(id_val="organize", options=_columns()))
        .sort_by([common.TableSortByFieldState().display_name(_EVIDENCE_COLUMN).desc(True)])
        .override_by_name(_COUNTED_COLUMN, [_property("unit", "short"), _property("decimals", 0)])
        .override_by_name(_EVIDENCE_COLUMN, _evidence())
        .override_by_regexp(
            "|".join(_TIME_COLUMNS), [_property("unit", "dateTimeFromNow"), _property("decimals", None)]
        )
    )


def _columns() -> dict[str, object]:
    values = ("Evidence", "Baseline", "Current", "Drop", "Observations", "Since", "Version since")
    names = {**_LABEL_COLUMNS, **{f"Value #{ref}": name for ref, name in zip("ABCDEFG", values, strict=True)}}
    order = ("gen_ai_agent_name", "gen_ai_tool_name", "gen_ai_evaluation_name", "Value #A", "Value #B", "Value #C")
    order += ("Value #D", "Value #F", "service_version", "Value #G", "Value #E", "toolgauge_service")
    order += ("deployment_environment_name",)
    return {
        "renameByName": names,
        "excludeByName": dict.fromkeys(_HIDDEN_COLUMNS, True),
        "indexByName": {name: place for place, name in enumerate(order)},
    }


def _evidence() -> list[models.DynamicConfigValue]:
    bar = {"type": "gauge", "mode": "gradient", "valueDisplayMode": "text"}
    return [
        _property("unit", "short"),
        _property("decimals", 2),
        _property("min", 0),
        _property("max", 1),
        _property("custom.cellOptions", bar),
        _property("color", {"mode": "continuous-GrYlRd"}),
        _property("links", [{"title": "Traces that did not pass", "url": _traces_url(), "targetBlank": True}]),
    ]


def _property(name: str, value: object) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val=name, value=value)


def _traces_url() -> str:
    """Link to the scorecards of the calls that did not pass; the names are filled in from the line of the table."""
    query = (
        '{ name = "toolgauge.scorecard" && span."toolgauge.service" = "${__data.fields.Service}" '
        '&& event."gen_ai.tool.name" =~ "${__data.fields.Tool}.*" '
        '&& event."gen_ai.evaluation.name" = "${__data.fields.Criterion}" }'
    )
    queries = [{"refId": "A", "queryType": "traceql", "query": query}]
    explored = {
        "t": {
            "datasource": f"${{{TRACES}}}",
            "queries": queries,
            "range": {"from": "${__from}", "to": "${__to}"},
        }
    }
    # Grafana fills in the variables of a link as it stands: their braces and dollar signs must not be encoded.
    return f"/explore?schemaVersion=1&panes={quote(json.dumps(explored), safe='${}._')}"
