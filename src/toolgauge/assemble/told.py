"""Sorts nodes by what they tell: most tell but a few things, and for each of them several have a look."""

from collections.abc import Generator, Sequence

from toolgauge.assemble.node import Node
from toolgauge.assemble.pauses import Pace, parts


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

    @property
    def of_run(self) -> bool:
        """Whether any agent, model or tool call was seen."""
        if self.requesting or self.executing or self.running:
            return True
        return any(node.model_call is not None for node in self.nodes)

    def sorting(self, pace: Pace) -> Generator[None, None, None]:
        """Sort them, and note the place of each; pause now and then."""
        place = 0
        for part in parts(self.nodes):
            self._sort(part, place)
            place += len(part)
            pace.left -= 2 * len(part)
            if pace.left < 0:
                yield pace.rest()

    def _sort(self, nodes: Sequence[Node], first_place: int) -> None:
        for place, node in enumerate(nodes, first_place):
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
