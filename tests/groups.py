"""Which group of `pyproject.toml` a module that tests import comes with.

`python3 tests -k align` installs the group `test` alone. A test that needs another group skips and names the command that
installs it. Where every group must be there (`--every-group`, as in CI) such a test fails.
"""

from importlib.util import find_spec

MODULES = {
    "axe_playwright_python": "browser",
    "basedpyright": "types",
    "cel_expr_python": "cel",
    "confluent_kafka": "kafka",
    "furo": "docs",
    "grafana_foundation_sdk": "deploy",
    "httpx2": "producers",
    "langchain_core": "producers",
    "langgraph": "producers",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "myst_parser": "docs",
    "openai": "producers",
    "openinference": "producers",
    "playwright": "browser",
    "pydantic_ai": "producers",
    "sphinx": "docs",
}


def is_installed(group: str) -> bool:
    """Return whether every module of the group is there."""
    return all(find_spec(module) for module, comes_with in MODULES.items() if comes_with == group)


def reason(group: str) -> str:
    """Word why a test skips."""
    return f"needs the group `{group}`: `python3 tests --with {group}` installs it"
