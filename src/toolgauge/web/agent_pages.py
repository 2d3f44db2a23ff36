"""The pages of agents: all of them with what a run that passed takes, and each with its models, prompts and tools."""

from collections.abc import Mapping
from hashlib import blake2b
from urllib.parse import urlencode

import msgspec

from toolgauge.export.run_usage import MEASURES
from toolgauge.model.metrics import MAX_LABEL, fit_label
from toolgauge.report.catalogue import CataloguedAgent, of_success, passed_words
from toolgauge.web.pages import Page, PageGroup, PageRequest


class AgentPages(PageGroup):
    """Shows the catalogue of agents."""

    def routes(self) -> Mapping[str, Page]:
        """Return the pages by the first part of their path."""
        return {"/agents": self._agents, "/agents.json": self._json}

    def _json(self, request: PageRequest) -> str | None:
        return None if len(request.path) > 1 else msgspec.json.encode(self._shown.catalogue.content()).decode()

    def _agents(self, request: PageRequest) -> str | None:
        content = self._shown.catalogue.content()
        rows = [
            (agent_id(one.service, one.environment, one.agent), one, [of_success(one.usage, each) for each in MEASURES])
            for one in content.agents
        ]
        if len(request.path) < 2:
            return self._pages.page(
                "agents.html",
                section="agents",
                title="Agents",
                rows=rows,
                left_out=content.left_out,
                names_success=any(agent.usage.names_success for agent in content.agents),
            )
        row = next((row for row in rows if row[0] == request.path[1]), None) if len(request.path) == 2 else None
        if row is None:
            return None
        _, agent, takes = row
        return self._pages.page(
            "agent.html",
            section="agents",
            title=f"Agent {agent.agent[:60] or 'without a name'}",
            agent=agent,
            takes=takes,
            passed=passed_words(agent.usage),
            tools=[(tool, _query(agent, tool=tool.tool)) for tool in agent.tools],
            query=_query(agent),
            of_service=urlencode({"service": agent.service}),
        )


def agent_id(service: str | None, environment: str | None, agent: str | None) -> str:
    """Return an id that is safe in a URL, and the same after a restart."""
    names = [fit_label((name or "")[:MAX_LABEL]) for name in (service, environment, agent)]
    return blake2b(repr(names).encode(), digest_size=8).hexdigest()


def _query(agent: CataloguedAgent, **more: str) -> str:
    """Write the query of the agent's trajectories."""
    values = {"service": agent.service, "agent": agent.agent, **more}
    return urlencode({name: value for name, value in values.items() if value})
