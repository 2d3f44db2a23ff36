"""Dashboards as Perses reads them (`percli apply -f`), from the same panels.

Perses has no annotations of this kind, no exemplars and no links from a line of a table: they are left out. A heatmap of
classic buckets is drawn as lines.
"""

import json
from collections.abc import Iterator, Mapping

from deploy.dashboards.model import COLUMNS, Dashboard, Panel, Query, Threshold, Variable, placed

PROJECT = "toolgauge"
_TEXT_HEIGHT = 4
_UNITS = {"percentunit": "percent-decimal", "short": "decimal", "s": "seconds", "bytes": "bytes"}
_COLORS = {
    "blue": "#5794F2",
    "green": "#73BF69",
    "orange": "#FF9830",
    "red": "#F2495C",
    "transparent": "#00000000",
}
_LAST = "last-number"


def perses_json(described: Dashboard) -> str:
    """Write one dashboard as JSON."""
    panels = {"purpose": _panel_of("Purpose", described.description, "Markdown", {"text": described.purpose})}
    panels |= {_key(row, number): _panel(panel) for row, number, panel in _numbered(described)}
    spec = {
        "display": {"name": described.title, "description": described.description},
        "duration": "1h",
        "refreshInterval": "30s",
        "variables": [_variable(variable) for variable in described.variables],
        "panels": panels,
        "layouts": list(_layouts(described)),
    }
    resource = {"kind": "Dashboard", "metadata": {"name": described.uid, "project": PROJECT}, "spec": spec}
    return json.dumps(resource, indent=2, ensure_ascii=False) + "\n"


def _numbered(described: Dashboard) -> Iterator[tuple[int, int, Panel]]:
    for row_number, row in enumerate(described.rows):
        for number, panel in enumerate(row.panels):
            yield row_number, number, panel


def _key(row: int, number: int) -> str:
    return f"{row}_{number}"


def _variable(variable: Variable) -> Mapping[str, object]:
    options = {"labelName": variable.of_label, "matchers": [variable.selector]}
    spec: dict[str, object] = {
        "name": variable.name,
        "display": {"name": variable.label},
        "allowMultiple": variable.many,
        "allowAllValue": variable.many,
        "sort": "alphabetical-asc",
        "plugin": {"kind": "PrometheusLabelValuesVariable", "spec": options},
    }
    if variable.many:
        spec |= {"defaultValue": ["$__all"], "customAllValue": ".*"}
    if variable.first is not None:
        spec["defaultValue"] = variable.first
    return {"kind": "ListVariable", "spec": spec}


def _layouts(described: Dashboard) -> Iterator[Mapping[str, object]]:
    yield {"kind": "Grid", "spec": {"items": [_item("purpose", 0, 0, COLUMNS, _TEXT_HEIGHT)]}}
    for row_number, row in enumerate(described.rows):
        places, _ = placed(row.panels, 0)
        items = [
            _item(_key(row_number, number), place.x, place.y, place.width, place.height)
            for number, place in enumerate(places)
        ]
        display = {"title": row.title, "collapse": {"open": True}}
        yield {"kind": "Grid", "spec": {"display": display, "items": items}}


def _item(key: str, x: int, y: int, width: int, height: int) -> Mapping[str, object]:
    return {"x": x, "y": y, "width": width, "height": height, "content": {"$ref": f"#/spec/panels/{key}"}}


def _panel(panel: Panel) -> Mapping[str, object]:
    drawn = [query for query in panel.queries if not query.expr.endswith(" < 0")]
    kind, options = _plugin(panel)
    return _panel_of(panel.title, panel.description, kind, options, [_query(query) for query in drawn])


def _panel_of(
    title: str,
    description: str,
    kind: str,
    options: Mapping[str, object],
    queries: list[Mapping[str, object]] | None = None,
) -> Mapping[str, object]:
    spec: dict[str, object] = {
        "display": {"name": title, "description": description},
        "plugin": {"kind": kind, "spec": options},
    }
    if queries:
        spec["queries"] = queries
    return {"kind": "Panel", "spec": spec}


def _query(query: Query) -> Mapping[str, object]:
    options = {"query": query.expr, "seriesNameFormat": query.legend}
    plugin = {"kind": "PrometheusTimeSeriesQuery", "spec": options}
    return {"kind": "TimeSeriesQuery", "spec": {"plugin": plugin}}


def _plugin(panel: Panel) -> tuple[str, Mapping[str, object]]:
    """Choose how a panel is drawn, with the options of that plug-in."""
    unit: dict[str, object] = {"unit": _UNITS[panel.unit]}
    if panel.decimals is not None:
        unit["decimalPlaces"] = panel.decimals
    match panel.kind:
        case "stat":
            options = {
                "calculation": _LAST,
                "format": unit,
                "thresholds": _thresholds(panel.thresholds),
                "sparkline": {},
            }
            return "StatChart", options
        case "ranking":
            return "BarChart", {"calculation": _LAST, "format": unit, "sort": "desc"}
        case "table":
            merged: Mapping[str, object] = {"kind": "MergeSeries", "spec": {}}
            return "Table", {"transforms": [merged], "columnSettings": _columns(panel)}
        case "lines" | "bars" | "heatmap":
            return "TimeSeriesChart", _chart(panel, unit)


def _chart(panel: Panel, unit: Mapping[str, object]) -> Mapping[str, object]:
    axis: dict[str, object] = {"format": unit}
    if panel.minimum is not None:
        axis["min"] = panel.minimum
    if panel.maximum is not None:
        axis["max"] = panel.maximum
    options: dict[str, object] = {
        "legend": {"position": "bottom", "mode": "table", "values": ["mean", _LAST]},
        "yAxis": axis,
        "visual": {
            "display": "bar" if panel.kind == "bars" else "line",
            "stack": "none" if panel.stack == "none" else "all",
        },
    }
    if panel.threshold_line:
        options["thresholds"] = _thresholds(panel.thresholds)
    return options


def _thresholds(thresholds: tuple[Threshold, ...]) -> Mapping[str, object]:
    base, *steps = thresholds
    return {
        "mode": "absolute",
        "defaultColor": _COLORS[base.color],
        "steps": [{"value": step.value, "color": _COLORS[step.color]} for step in steps],
    }


def _columns(panel: Panel) -> list[Mapping[str, object]]:
    """Name the columns of the values and sort by the first."""
    hidden = ("timestamp", "toolgauge_criterion_revision", "toolgauge_level")
    columns: list[Mapping[str, object]] = [{"name": name, "hide": True} for name in hidden]
    for number, query in enumerate(panel.queries, start=1):
        column: dict[str, object] = {"name": f"value #{number}", "header": query.legend, "enableSorting": True}
        columns.append({**column, "sort": "desc"} if number == 1 else column)
    return columns
