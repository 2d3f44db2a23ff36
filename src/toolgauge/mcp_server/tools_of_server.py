"""Asks an MCP server over standard input and output which tools it offers."""

import asyncio
from collections.abc import Sequence

from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams

from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json

_MAX_PAGES, _SECONDS = 100, 30


def tools_of_server(command: Sequence[str]) -> Json:
    """Start a server and return its answer to `tools/list`, all pages in one. Raises `ConfigError`."""
    shown = " ".join(command)[:80]
    try:
        return asyncio.run(asyncio.wait_for(_listed(command), _SECONDS))
    except TimeoutError:
        raise ConfigError(f"`{shown}` did not list its tools within {_SECONDS} s") from None
    except (OSError, MCPError) as error:
        raise ConfigError(f"`{shown}` did not list its tools: {error}") from error


async def _listed(command: Sequence[str]) -> Json:
    server = StdioServerParameters(command=command[0], args=[*command[1:]])
    tools: list[Json] = []
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
    return {"tools": tools}
