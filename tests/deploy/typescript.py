"""Checks dashboards against the types that Grafana publishes, with the TypeScript compiler.

Both come from npm as pinned in `grafana_schema/`, once, into a cache. The types of queries to Prometheus are not among
what Grafana publishes there; Grafana's SDK for Python knows them.
"""

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.wire.support import environment

PINS = Path(__file__).parent / "grafana_schema"
_INSTALL_TIMEOUT_S = 120
_MODULES = "@grafana/schema/dist/esm/raw/composable"
_TYPES = {
    "bargauge": "BarGaugePanelCfg",
    "heatmap": "HeatmapPanelCfg",
    "stat": "StatPanelCfg",
    "table": "TablePanelCfg",
    "text": "TextPanelCfg",
    "timeseries": "TimeSeriesPanelCfg",
}
# Values of enumerations stand in JSON as plain text.
_PLAIN = (
    "type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[] "
    ": T extends object ? { [K in keyof T]: Plain<T[K]> } : T;"
)
# What the types leave out: Prometheus' part of annotations, and what the SDK writes for variables of any kind.
_UNTYPED_OF_ANNOTATIONS = ("expr", "step", "textFormat", "titleFormat")
_UNTYPED_OF_VARIABLES = ("auto", "auto_count", "auto_min")


def errors(folder: Path, dashboards: Mapping[str, dict[str, Any]]) -> str:
    """Compile dashboards, given by name, and return what the compiler finds; skip the test where there is none."""
    packages = _packages()
    if isinstance(packages, str):
        pytest.skip(packages)
    (folder / "node_modules").symlink_to(packages / "node_modules")
    for name, dashboard in dashboards.items():
        (folder / f"{name}.ts").write_text("\n".join(_lines(dashboard)))
    node = shutil.which("node")
    assert node
    command = [node, "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "esnext"]
    command += ["--moduleResolution", "bundler", *(f"{name}.ts" for name in dashboards)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment())
    return done.stdout + done.stderr


@functools.cache
def _packages() -> Path | str:
    """Find or install the packages; returns why not where that cannot be done."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return "no node and npm on this machine: types are not checked"
    pins = hashlib.sha256((PINS / "package-lock.json").read_bytes()).hexdigest()[:16]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = caches / "toolgauge-tests" / f"grafana-schema-{pins}"
    folder.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes: one of them installs, the others wait for it.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            for pin in PINS.iterdir():
                shutil.copy(pin, folder)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=_INSTALL_TIMEOUT_S
            )
            if done.returncode:
                return f"Grafana's types cannot be had here: {done.stderr.strip()[-300:]}"
            (folder / "installed").touch()
    return folder


def _lines(dashboard: dict[str, Any]) -> Iterator[str]:
    yield 'import type { Dashboard } from "@grafana/schema";'
    for kind, module in _TYPES.items():
        yield f'import type * as {kind} from "{_MODULES}/{kind}/panelcfg/x/{module}_types.gen.js";'
    yield _PLAIN
    yield f"export const dashboard: Plain<Dashboard> = {json.dumps(_typed(dashboard))};"
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            continue
        yield f"export const options{panel['id']}: Plain<{panel['type']}.Options> = {json.dumps(panel['options'])};"
        custom = panel.get("fieldConfig", {}).get("defaults", {}).get("custom")
        if custom is not None:
            yield f"export const custom{panel['id']}: Plain<{panel['type']}.FieldConfig> = {json.dumps(custom)};"


def _typed(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Copy a dashboard without what the types leave out."""
    copied: dict[str, Any] = json.loads(json.dumps(dashboard))
    for annotation in copied["annotations"]["list"]:
        for key in _UNTYPED_OF_ANNOTATIONS:
            annotation.pop(key, None)
    for variable in copied["templating"]["list"]:
        for key in _UNTYPED_OF_VARIABLES:
            variable.pop(key, None)
    return copied
