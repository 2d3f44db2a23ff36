"""Dashboards as Grafana reads them: provisioned as files, or imported by hand."""

import json
from collections.abc import Iterator
from typing import TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    text,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

from deploy.dashboards.grafana_table import TRACES, stream_table
from deploy.dashboards.model import COLUMNS, Annotation, Dashboard, Panel, Place, Query, Threshold, Variable, placed

TAG = "toolgauge"
_T = TypeVar("_T", covariant=True)
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_TEXT_HEIGHT = 4
_LAST = "lastNotNull"


def grafana_json(described: Dashboard) -> str:
    """Write one dashboard as JSON."""
    return json.dumps(_dashboard(described).build(), cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


def _dashboard(described: Dashboard) -> dashboard.Dashboard:
    builder = (
        dashboard.Dashboard(described.title)
        .uid(described.uid)
        .description(described.description)
        .tags([TAG, "generated"])
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .timezone("browser")
        .refresh("30s")
        .link(
            dashboard.DashboardLink("Toolgauge")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
    )
    for source, kind, label in (("datasource", "prometheus", "Metrics"), (TRACES, "tempo", "Traces")):
        builder.with_variable(dashboard.DatasourceVariable(source).type(kind).label(label))
    for variable in described.variables:
        builder.with_variable(_variable(variable))
    for annotation in described.annotations:
        builder.annotation(_Ready(_MarkedMoments(annotation)))
    for panel in _panels(described):
        builder.with_panel(_Ready(panel)) if isinstance(panel, models.Panel) else builder.with_row(_Ready(panel))
    return builder


def _variable(variable: Variable) -> dashboard.QueryVariable:
    builder = (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(_SOURCE)
        .query({"query": f"label_values({variable.selector}, {variable.of_label})", "refId": variable.name})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(variable.many)
        .include_all(variable.many)
    )
    if variable.many:
        # Everything, also series that do not have the label: such as the tool in a stream of all tools.
        builder.all_value(".*").current(models.VariableOption(text=["All"], value=["$__all"]))
    if variable.first is not None:
        builder.current(models.VariableOption(text=variable.first, value=variable.first))
    return builder


class _Ready(Builder[_T]):
    """What needs no more building."""

    def __init__(self, built: _T) -> None:
        self._built = built

    def build(self) -> _T:
        """Return it."""
        return self._built


class _MarkedMoments(models.AnnotationQuery):
    """A query for annotations with what Prometheus' data source reads, which the model leaves out."""

    def __init__(self, annotation: Annotation) -> None:
        super().__init__(
            name=annotation.name, datasource=_SOURCE, enable=True, icon_color=annotation.color, expr=annotation.expr
        )
        self._texts = {"titleFormat": annotation.title, "textFormat": annotation.text, "step": "15s"}

    def to_json(self) -> dict[str, object]:
        """Add the texts."""
        return {**super().to_json(), **self._texts}


def _panels(described: Dashboard) -> Iterator[models.Panel | models.RowPanel]:
    """Yield rows and their panels with ids and places: the text first."""
    ids = {panel.title: number for number, panel in enumerate(_all(described), start=2)}
    yield _text_panel(described)
    y = _TEXT_HEIGHT
    for number, row in enumerate(described.rows, start=len(ids) + 2):
        row_panel = dashboard.Row(row.title).id(number).grid_pos(models.GridPos(x=0, y=y, w=COLUMNS, h=1)).build()
        yield row_panel
        places, y = placed(row.panels, y + 1)
        for panel, place in zip(row.panels, places, strict=True):
            target = ids[panel.links_to_panel] if panel.links_to_panel is not None else None
            yield _panel(panel, ids[panel.title], place, described.uid, target)


def _all(described: Dashboard) -> Iterator[Panel]:
    for row in described.rows:
        yield from row.panels


def _text_panel(described: Dashboard) -> models.Panel:
    return (
        text.Panel()
        .id(1)
        .title("Purpose")
        .description(described.description)
        .mode(TextMode.MARKDOWN)
        .content(described.purpose)
        .grid_pos(models.GridPos(x=0, y=0, w=COLUMNS, h=_TEXT_HEIGHT))
        .build()
    )


def _panel(panel: Panel, number: int, place: Place, uid: str, links_to: int | None) -> models.Panel:
    built = _drawn(panel)
    built.id_val, built.title, built.description, built.datasource = number, panel.title, panel.description, _SOURCE
    built.grid_pos = models.GridPos(x=place.x, y=place.y, w=place.width, h=place.height)
    built.targets = [_target(panel, query, ref).build() for query, ref in zip(panel.queries, "ABCDEFG", strict=False)]
    built.field_config = built.field_config or models.FieldConfigSource()
    defaults = built.field_config.defaults or models.FieldConfig()
    built.field_config.defaults = defaults
    defaults.unit, defaults.decimals = panel.unit, panel.decimals
    defaults.min_val, defaults.max_val = panel.minimum, panel.maximum
    if panel.thresholds:
        defaults.thresholds = _thresholds(panel.thresholds).build()
    if links_to is not None:
        url = f"/d/{uid}?viewPanel={links_to}&${{__url_time_range}}&${{__all_variables}}"
        defaults.links = [
            dashboard.DashboardLink("Show the table").type(models.DashboardLinkType.LINK).url(url).build()
        ]
    return built


def _target(panel: Panel, query: Query, ref: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(ref).legend_format(query.legend or "__auto")
    match panel.kind:
        case "table":
            return target.instant().format(PromQueryFormat.TABLE)
        case "ranking":
            return target.instant().format(PromQueryFormat.TIME_SERIES)
        case "heatmap":
            return target.range().format(PromQueryFormat.HEATMAP).exemplar(query.exemplars)
        case _:
            return target.range().format(PromQueryFormat.TIME_SERIES).exemplar(query.exemplars)


def _thresholds(thresholds: tuple[Threshold, ...]) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=threshold.value, color=threshold.color) for threshold in thresholds]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _drawn(panel: Panel) -> models.Panel:
    match panel.kind:
        case "stat":
            return _stat().build()
        case "table":
            return stream_table().build()
        case "heatmap":
            return _heatmap().build()
        case "ranking":
            return _ranking().build()
        case "lines" | "bars":
            return _time_series(panel).build()


def _stat() -> stat.Panel:
    return (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs([_LAST]).values(False))
        .graph_mode(common_models.BigValueGraphMode.AREA)
        .color_mode(common_models.BigValueColorMode.VALUE)
    )


def _time_series(panel: Panel) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .display_mode(common_models.LegendDisplayMode.TABLE)
        .placement(common_models.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["mean", _LAST])
    )
    builder = (
        timeseries.Panel()
        .legend(legend)
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_models.TooltipDisplayMode.MULTI)
            .sort(common_models.SortOrder.DESCENDING)
        )
        .span_nulls(False)
        .line_width(1)
    )
    if panel.kind == "bars":
        builder.draw_style(common_models.GraphDrawStyle.BARS).fill_opacity(60)
    if panel.stack != "none":
        mode = common_models.StackingMode.PERCENT if panel.stack == "percent" else common_models.StackingMode.NORMAL
        builder.stacking(common.StackingConfig().mode(mode).group("A"))
    if panel.threshold_line:
        style = common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED)
        builder.thresholds_style(style)
    return builder


def _heatmap() -> heatmap.Panel:
    return (
        heatmap.Panel()
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(64))
        .show_color_scale(True)
        .cell_gap(1)
        .hide_from(common.HideSeriesConfig().viz(False).legend(False).tooltip(False))
    )


def _ranking() -> bargauge.Panel:
    return (
        bargauge.Panel()
        .orientation(common_models.VizOrientation.HORIZONTAL)
        .display_mode(common_models.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs([_LAST]).values(False))
    )
