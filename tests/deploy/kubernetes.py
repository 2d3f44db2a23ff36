"""Manifests against the published schemas of Kubernetes and of custom resources, kept beside this file."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.json_schemas import validator

HERE = Path(__file__).parent


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    """Every kind's schema, by `apiVersion kind`."""
    core = json.loads((HERE / "kubernetes-1.34.json").read_text())
    common = {"$schema": core["$schema"], "$defs": core["$defs"]}
    custom = json.loads((HERE / "custom-resources.json").read_text())
    known = {kind: {**common, "$ref": f"#/$defs/{name}"} for kind, name in core["kinds"].items()}
    return known | {kind: {"$schema": custom["$schema"], **schema} for kind, schema in custom["kinds"].items()}


def errors(manifest: dict[str, Any]) -> list[str]:
    """List what the schema of the manifest's kind refuses; a kind without a schema is an error of the test."""
    schema = _schemas()[f"{manifest['apiVersion']} {manifest['kind']}"]
    found = validator(schema).iter_errors(manifest)
    return [f"{error.json_path}: {error.message}" for error in found]


def part_errors(name: str, part: object) -> list[str]:
    """List what the schema of a part of Kubernetes' own kinds, such as `core.v1.Container`, refuses."""
    core = json.loads((HERE / "kubernetes-1.34.json").read_text())
    schema = {"$schema": core["$schema"], "$defs": core["$defs"], "$ref": f"#/$defs/io.k8s.api.{name}"}
    found = validator(schema).iter_errors(part)
    return [f"{error.json_path}: {error.message}" for error in found]


def identity(manifest: dict[str, Any]) -> str:
    """Name a manifest in a test's id."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"
