"""The Helm chart: what it renders for each example, committed in `rendered/` so that it can be checked without Helm.

    python -m tests.deploy.helm --write     # after a change of the chart, or of a key of the configuration

Dashboards and groups of rules, which the chart takes from elsewhere in `deploy/`, are named there and not repeated.
"""

import argparse
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from tests.deploy.fetched import GO, alone, cache, go
from tests.deploy.files import DEPLOY
from toolgauge.config.editor_schema import config_schema

CHART = DEPLOY / "helm" / "toolgauge"
RENDERED = Path(__file__).parent / "rendered"
EXAMPLES = sorted((DEPLOY / "helm" / "examples").glob("*.yaml"))
CASES = ("defaults", *(example.stem for example in EXAMPLES))
VERSION = "v3.22.0"
_OPERATOR = "monitoring.coreos.com/v1"


# -- Helm itself --------------------------------------------------------------------------------------------------------


@functools.cache
def _found() -> str | None:
    built = cache() / f"helm-{VERSION}"
    return str(built) if built.exists() else shutil.which("helm")


def installed(*, may_build: bool = False) -> str:
    """Find Helm, or build it from its Go module; skip the test with the reason where that cannot be done, or may not."""
    if _found() is None and may_build:
        _build()
    helm = _found()
    if helm is None:
        pytest.skip("no Helm on this machine: `python3 tests --long` builds it from its Go module, in minutes")
    return helm


def _build() -> None:
    if GO is None:
        pytest.skip("no Helm on this machine, and no Go toolchain to build it with")
    kept, into = cache() / f"helm-{VERSION}", cache() / f"helm-{os.getpid()}"
    with alone(cache() / "helm"):
        module = f"helm.sh/helm/v3/cmd/helm@{VERSION}"
        done = go("install", "-ldflags=-s -w", module, GOBIN=str(into), GOFLAGS="-trimpath")
        if done.returncode:
            pytest.skip(f"no Helm on this machine, and its module cannot be built: {done.stderr.strip()[-300:]}")
        (into / "helm").rename(kept)
        into.rmdir()
    _found.cache_clear()


def run(helm: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm with nothing of the user's own settings, and no cluster."""
    quiet = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    return subprocess.run([helm, *arguments], env=quiet, capture_output=True, text=True, check=False, timeout=120)


def render(helm: str, case: str, *more: str) -> list[dict[str, Any]]:
    """Render the chart with the values of an example, for a cluster with the Prometheus operator."""
    values = [] if case == "defaults" else ["--values", str(DEPLOY / "helm" / "examples" / f"{case}.yaml")]
    cluster = ["--namespace", "toolgauge", "--kube-version", "1.34.0", "--api-versions", _OPERATOR]
    done = run(helm, "template", "toolgauge", str(CHART), *cluster, *values, *more)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


# -- what is committed --------------------------------------------------------------------------------------------------


def digest() -> str:
    """Sum up everything of the chart and the examples that decides what is rendered, but for the linked files."""
    sources = hashlib.sha256()
    for file in [CHART / "Chart.yaml", CHART / "values.yaml", *sorted((CHART / "templates").iterdir()), *EXAMPLES]:
        sources.update(file.name.encode() + b"\0" + file.read_bytes())
    return sources.hexdigest()


def rendered(case: str) -> list[dict[str, Any]]:
    """Read the committed manifests of an example."""
    return list(yaml.safe_load_all((RENDERED / f"{case}.yaml").read_text()))


def shortened(manifest: dict[str, Any]) -> dict[str, Any]:
    """Replace the content of dashboards and of groups of rules by what it is."""
    if manifest["kind"] == "PrometheusRule":
        groups: list[dict[str, Any]] = [{"name": group["name"], "rules": []} for group in manifest["spec"]["groups"]]
        return {**manifest, "spec": {"groups": groups}}
    if is_dashboard(manifest):
        return {**manifest, "data": dict.fromkeys(manifest["data"], "deploy/grafana/dashboards")}
    return manifest


def is_dashboard(manifest: dict[str, Any]) -> bool:
    """Whether a manifest is a ConfigMap for Grafana."""
    return manifest["kind"] == "ConfigMap" and manifest["metadata"]["name"].endswith("-dashboard")


def written(case: str, manifests: list[dict[str, Any]]) -> str:
    """What is committed of the manifests of an example."""
    options = "" if case == "defaults" else f" --values deploy/helm/examples/{case}.yaml"
    head = (
        f"# helm template toolgauge deploy/helm/toolgauge --namespace toolgauge --api-versions {_OPERATOR}{options}\n"
        f"# written by `python -m tests.deploy.helm --write`, from the chart {digest()}\n"
    )
    return head + yaml.dump_all(map(shortened, manifests), Dumper=_Readable, sort_keys=False, width=120)  # pyright: ignore[reportUnknownMemberType] - in newer stubs


class _Readable(yaml.SafeDumper):
    """Writes texts of several lines as such."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)  # pyright: ignore[reportUnknownMemberType]


_Readable.add_representer(str, _Readable.represent_str)


# -- the schema of the values -------------------------------------------------------------------------------------------


def values_schema() -> dict[str, Any]:
    """Make the schema of the values: ours of the chart, with that of toolgauge's configuration as it is now.

    Criteria are left out: they are nine tenths of it, and toolgauge itself checks them.
    """
    schema = json.loads((CHART / "values.schema.json").read_text())
    whole = config_schema()
    definitions = cast("dict[str, Any]", whole["$defs"])
    properties = {**cast("dict[str, Any]", whole["properties"]), "criteria": {"type": "array"}}
    kept: dict[str, Any] = {}
    wanted = {"config": {"type": "object", "additionalProperties": False, "properties": properties}}
    while wanted:
        name, definition = wanted.popitem()
        kept[name] = _without_paths(definition, whole)
        wanted |= {other: definitions[other] for other in _references(kept[name]) - kept.keys()}
    return {**schema, "$defs": {name: kept[name] for name in sorted(kept)}}


def _without_paths(part: Any, whole: dict[str, Any]) -> Any:  # noqa: ANN401 (any JSON)
    """Put a part of another definition in the place of a reference to it: that definition is not kept for its sake."""
    if isinstance(part, list):
        return [_without_paths(each, whole) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    own = cast("dict[str, Any]", part)
    steps = str(own.get("$ref", "")).removeprefix("#/").split("/")
    if len(steps) > 2:  # more than `$defs` and a name
        return _without_paths(functools.reduce(dict[str, Any].__getitem__, steps, whole), whole)
    return {key: _without_paths(value, whole) for key, value in own.items()}


def _references(part: Any) -> set[str]:  # noqa: ANN401 (any JSON)
    if isinstance(part, list):
        return set[str]().union(*map(_references, cast("list[Any]", part)))
    if not isinstance(part, dict):
        return set()
    own = cast("dict[str, Any]", part)
    here = {own["$ref"].removeprefix("#/$defs/")} if isinstance(own.get("$ref"), str) else set[str]()
    return here.union(*map(_references, own.values()))


def _write() -> None:
    (CHART / "values.schema.json").write_text(json.dumps(values_schema(), indent=1, ensure_ascii=False) + "\n")
    helm = _found()
    if helm is None:
        install = f"go install helm.sh/helm/v3/cmd/helm@{VERSION}"
        sys.exit(f"wrote the schema of the values; there is no `helm` to render with: `{install}`")
    RENDERED.mkdir(exist_ok=True)
    for old in RENDERED.glob("*.yaml"):
        old.unlink()
    for case in CASES:
        (RENDERED / f"{case}.yaml").write_text(written(case, render(helm, case)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    _write()
