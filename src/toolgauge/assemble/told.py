"""Sorts nodes by what they tell: most tell but a few things, and for each of them several have a look."""

from collections.abc import Sequence

from toolgauge.assemble.node import Node


class Told:
    """Nodes, and those of them that tell something; each in order of time."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.requesting: list[Node] = []
        self.executing: list[Node] = []
        self.answering: list[Node] = []
        self.speaking: list[Node] = []
        self.offering: list[Node] = []
        # Those that are runs of agents.
        self.running: list[Node] = []
        self._sort()

    @property
    def of_run(self) -> bool:
        """Whether any agent, model or tool call was seen."""
        if self.requesting or self.executing or self.running:
            return True
        return any(node.model_call is not None for node in self.nodes)

    def _sort(self) -> None:
        for place, node in enumerate(self.nodes):
            node.place = place
            if node.requests:
                self.requesting.append(node)
            if node.executions:
                self.executing.append(node)
            if node.answers:
                self.answering.append(node)
            if node.messages:
                self.speaking.append(node)
            if node.offers:
                self.offering.append(node)
            if node.agent_run is not None:
                self.running.append(node)
