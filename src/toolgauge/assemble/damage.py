"""Detects model outputs that are missing or garbled, and the inputs whose histories repeat them: at most one an agent run."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from toolgauge.assemble.node import Node, NodeIndex
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded

# Text that begins so is JSON which was cut, or a text of the model: the history shows which.
_JSON = ("[", "{")


class Given(Struct, frozen=True):
    """The calls that were answered before any output of the trace: their ids, and how many answers have none."""

    ids: Collection[str | None]
    without_id: int


class Needed(Struct, frozen=True):
    """An input whose history is needed. `before` is the damaged output of an agent that handed its history on."""

    given: Node
    before: Node | None = None


def model_calls(index: NodeIndex) -> list[Node]:
    """Return the model calls that show input or calls; of those around others, which repeat one of them, none."""
    models = [
        node
        for node in index.nodes
        if node.model_call is not None and node.is_primary and (node.requests or shows_input(node))
    ]
    outer = around(models)
    return [node for node in models if id(node) not in outer and not node.from_log_only]


def around(models: Sequence[Node]) -> set[int]:
    """Return the spans of model calls around others; where a tool or an agent's run stands between, they are calls of their own."""
    found: set[int] = set()
    for node in models:
        above = node.branch.model_above
        is_same_run = above is not None and above.branch.inside is node.branch.inside
        if above is not None and is_same_run and above.branch.tool_above is node.branch.tool_above:
            found.add(id(above))
    return found


def may_be_damaged(index: NodeIndex, pairs: Sequence[Pair]) -> bool:
    """Return whether a closer look is worth it: of nearly all traces this is all that is asked."""
    requested = {pair.call_id for pair in pairs if pair.request is not None}
    requested.discard(None)
    before: dict[int, int] = {}
    for node in index.answering:
        run, count = id(node.branch.outermost), len(node.answers)
        # Each input of a run repeats the answers in the one before it.
        known = before.get(run, 0)
        for answer in node.answers[known:] if count > known else node.answers:
            if answer.call_id not in requested:
                return True
        before[run] = count
    names: dict[int, frozenset[str]] = {}
    for node in index.nodes:  # noqa: SIM110 - a loop costs half of what a generator does
        if node.model_call is not None and is_damaged(node, names):
            return True
    return False


def is_damaged(node: Node, names: dict[int, frozenset[str]]) -> bool:
    """Return whether a model's output may have been lost or garbled. `names` keeps the names of offered tools, by offer."""
    for request in node.requests:
        if type(request.arguments) is not Recorded:
            return True
        is_offered = not node.offers
        for offer in node.offers:
            offered = names.get(id(offer.tools))
            if offered is None:
                offered = names[id(offer.tools)] = frozenset([tool.name for tool in offer.tools])
            is_offered = is_offered or request.name in offered
        if not is_offered:
            return True
        # An empty object may stand for arguments that were lost, unless the tool's span has some.
        given = request.execution.arguments if request.execution is not None else NOT_RECORDED
        if request.arguments.value == {} and (type(given) is NotRecorded or given == Recorded({})):
            return True
    if node.requests:
        return False
    for seen in node.messages:
        if seen.role == "assistant":
            return seen.text.lstrip()[:1] in _JSON
    return True


def shows_input(node: Node) -> bool:
    """Return whether anything of a model's input was recorded: some spans around model calls hold none."""
    return bool(node.answers) or any(seen.role == "user" for seen in node.messages)


def given_at_first(index: NodeIndex, models: Sequence[Node]) -> Given:
    """Return the calls in the first input of the trace, and in the first of each run: earlier turns, and examples."""
    ran = {execution.call_id for node in index.executing for execution in node.executions}
    ids: set[str | None] = set()
    runs: set[int] = set()
    without_id = 0
    for node in models:
        if run_of(node) not in runs:
            if not runs:
                without_id = len([answer for answer in node.answers if answer.call_id is None])
            runs.add(run_of(node))
            # A tool's span in the trace shows that the call was made in it.
            ids.update([answer.call_id for answer in node.answers if answer.call_id not in ran])
    ids.discard(None)
    return Given(ids, without_id)


def needed_inputs(models: Sequence[Node], pairs: Sequence[Pair], given: Given) -> list[Needed]:
    """Return the inputs whose histories are needed, one a run: the newest of those that follow on damage."""
    requested = {pair.call_id for pair in pairs if pair.request is not None and pair.call_id is not None}
    newest: dict[int, Needed] = {}
    # How many answers the input before had, and the output since then that shows damage.
    before: dict[int, int] = {}
    damaged: dict[int, Node] = {}
    first: list[Node] = []
    names: dict[int, frozenset[str]] = {}
    for node in models:
        run = run_of(node)
        if node.answers:
            answered = before.get(run, 0)
            answers = node.answers[answered:] if len(node.answers) > answered else node.answers
            unasked = {answer.call_id for answer in answers} - requested
            is_asked_elsewhere = any(call is not None and call not in given.ids for call in unasked)
            if run in damaged or is_asked_elsewhere or (None in unasked and _lacks_requests(node, pairs, given)):
                newest[run] = Needed(node)
            damaged.pop(run, None)
        if run not in before:
            first.append(node)
        before[run] = len(node.answers)
        if is_damaged(node, names):
            damaged[run] = node
    for last in damaged.values():
        # An agent that handed over has no later input; the agent after it was given its history.
        after = next((node for node in first if node.place > last.place and node.answers), None)
        if after is not None:
            newest.setdefault(run_of(after), Needed(after, last))
    return list(newest.values())


def _lacks_requests(node: Node, pairs: Sequence[Pair], given: Given) -> bool:
    """Return whether an input has more answers without ids than its run has asked for."""
    answers = len([answer for answer in node.answers if answer.call_id is None])
    run = run_of(node)
    asked = [pair for pair in pairs if pair.request is not None and run_of(pair.request.node) == run]
    return answers - given.without_id > len([pair for pair in asked if pair.asking.place < node.place])


def run_of(node: Node) -> int:
    """Return a key of the agent run that a span is part of."""
    return id(node.branch.outermost)
