"""Which group of `pyproject.toml` a module that tests import comes with.

`python3 tests -k align` installs the group `test` alone. A test that needs another group skips and names the command that
installs it. Where every group must be there (`--every-group`, as in CI) such a test fails.
"""

import re
from importlib.util import find_spec

# What errors of Python and of ours say about a package that is missing.
_MISSING = re.compile(r"No module named '(\w+)|the extra `toolgauge\[(\w+)\]`")
_EXTRAS = {"cel": "cel", "judge": "producers", "kafka": "kafka", "mcp": "mcp"}
MODULES = {
    "axe_playwright_python": "browser",
    "basedpyright": "types",
    "build": "release",
    "cel_expr_python": "cel",
    "confluent_kafka": "kafka",
    "cyclonedx_py": "release",
    "furo": "docs",
    "grafana_foundation_sdk": "deploy",
    "hatchling": "release",
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


def missing_group(error: BaseException | None) -> str | None:
    """Return the group that is not installed and whose module, or extra, this error or one of its causes is about."""
    while error is not None:
        for module, extra in _MISSING.findall(str(error)):
            group = MODULES.get(module) or _EXTRAS.get(extra)
            if group is not None and not is_installed(group):
                return group
        error = error.__cause__ or error.__context__
    return None
