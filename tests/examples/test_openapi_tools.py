"""The example script that turns OpenAPI documents into lists of tools."""

import json
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from toolgauge.config.model import Config
from toolgauge.config.tool_definitions import load_tool_definitions

SCRIPT = Path(__file__).parents[2] / "examples" / "openapi_tools.py"


def of_document(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in run_path(str(SCRIPT))["openapi_tools"](document)}


ORDERS: dict[str, Any] = {
    "openapi": "3.0.3",
    "paths": {
        "/orders/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "orders.get",
                "summary": "Look up an order",
                "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"$ref": "#/components/parameters/Trace"},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "cookie", "in": "cookie", "schema": {"type": "string"}},
                ],
            },
            "put": {
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
                },
            },
        },
        "/upload": {
            "post": {
                "operationId": "upload",
                "requestBody": {"content": {"text/plain": {"schema": {"type": "string"}}}},
            }
        },
    },
    "components": {
        "parameters": {"Trace": {"name": "X-Trace", "in": "header", "required": True, "schema": {"type": "string"}}},
        "schemas": {
            "Base": {"type": "object", "properties": {"id": {"type": "integer", "readOnly": True}}, "required": ["id"]},
            "Line": {"type": "object", "properties": {"of": {"$ref": "#/components/schemas/Line"}}},
            "Order": {
                "allOf": [
                    {"$ref": "#/components/schemas/Base"},
                    {
                        "properties": {"lines": {"type": "array", "items": {"$ref": "#/components/schemas/Line"}}},
                        "required": ["lines"],
                    },
                ]
            },
        },
    },
}


def test_an_operation_of_openapi_becomes_a_tool_with_flat_arguments():
    tools = of_document(ORDERS)
    assert list(tools) == ["orders_get", "put_orders_id", "upload"]
    assert tools["orders_get"] == {
        "name": "orders_get",
        "description": "Look up an order",
        "parameters": {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "fields": {"type": "array", "items": {"type": "string"}},
                "X-Trace": {"type": "string"},
            },
            "required": ["id", "X-Trace"],
        },
    }


def test_a_body_stands_beside_the_parameters_and_those_of_its_names_are_marked():
    assert of_document(ORDERS)["put_orders_id"]["parameters"] == {
        "type": "object",
        "properties": {
            "id__path": {"type": "string"},
            "id": {"type": "integer", "readOnly": True},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        },
        "required": ["id__path", "lines"],
        "$defs": {"Line": {"type": "object", "properties": {"of": {"$ref": "#/$defs/Line"}}}},
    }


def test_a_document_of_another_version_is_an_error():
    with pytest.raises(ValueError, match="not an OpenAPI 3 document"):
        of_document({"swagger": "2.0", "paths": {}})


def test_the_script_writes_what_the_configuration_reads(tmp_path: Path):
    (tmp_path / "shop.json").write_text(json.dumps(ORDERS))
    command = [sys.executable, str(SCRIPT), str(tmp_path / "shop.json")]
    (tmp_path / "tools.json").write_bytes(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    config = Config(tool_definitions=(str(tmp_path / "tools.json"),))
    assert list(load_tool_definitions(config)) == ["orders_get", "put_orders_id", "upload"]
