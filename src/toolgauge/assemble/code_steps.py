"""Finds the steps in which code agents ran code: all of them, and those that failed by their own code, which are calls.

The code itself is in what the model wrote within the step.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from toolgauge.assemble.node import Execution, Node, NodeIndex
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CodeStep

# Where code stands in what a model wrote: the tags and fences that smolagents asks for, by release.
_CODE = re.compile(
    r"<code>[ \t]*\n?([^<]*(?:<(?!/code>|code>)[^<]*)*)</code>|```(?:python|py)?[ \t]*\n([^`]*(?:`(?!``)[^`]*)*)```"
)
# So many steps around a call are looked at, and so much of the error of each: all calls of a trace may lie deep within them.
_MAX_STEPS = 32
_MAX_SEARCHED = 65_536


def failed_steps(index: NodeIndex, pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield a call for each step that failed.

    Rule: a step whose error is that of a call within it has not failed by itself: the call has, and counts once.
    """
    codes = _codes(index)
    failed_by_call = {
        step.ref for pair in pairs if pair.execution is not None for step in _steps_with_error_of(pair.execution)
    }
    for node in index.coding:
        step = node.code_step
        if step is None or step.error is None or node.ref in failed_by_call:
            continue
        code = codes.get(node.ref)
        arguments = NOT_RECORDED if code is None else Recorded({"code": code})
        ran = Execution(
            node=node,
            name=step.name,
            call_id=None,
            arguments=arguments,
            agent=None,
            result=NOT_RECORDED,
            error=step.error,
            is_protocol=False,
            tool_id=None,
            from_log=False,
            kind="code",
        )
        yield Pair(None, ran, node, step.name, None)


def code_steps(index: NodeIndex) -> tuple[CodeStep, ...]:
    """Return all steps that ran code, or tried to, in order of time."""
    if not index.coding:
        return ()
    codes = _codes(index)
    return tuple(
        CodeStep(
            span=node.ref,
            name=node.code_step.name,
            agent=node.branch.agents[-1] if node.branch.agents else None,
            code=codes.get(node.ref),
            has_failed=node.code_step.error is not None,
            start_ns=node.start_ns,
        )
        for node in index.coding
        if node.code_step is not None
    )


def _steps_with_error_of(call: Execution) -> Iterator[Node]:
    """Yield the steps around a call that ended with its error: code agents call each other within steps."""
    message = "" if call.error is None else call.error.message
    step = call.node.branch.step_above if message else None
    for _ in range(_MAX_STEPS):
        if step is None or step.code_step is None:
            return
        if step.code_step.error is not None and message in step.code_step.error.message[:_MAX_SEARCHED]:
            yield step
        step = step.branch.step_above


def _codes(index: NodeIndex) -> Mapping[SpanRef, str]:
    """Return the code of each step: the last that a model wrote directly within it."""
    steps = {node.ref for node in index.coding}
    codes: dict[SpanRef, str] = {}
    for node in index.speaking:
        if node.above is not None and node.above.ref in steps and (code := _code_of(node)):
            codes[node.above.ref] = code
    return codes


def _code_of(model: Node) -> str:
    """Return the code in a model's output, its blocks joined as smolagents joins them."""
    texts = [seen.text for seen in model.messages if seen.role == "assistant"]
    blocks = [(found[1] or found[2]).strip() for found in _CODE.finditer("\n".join(texts))]
    return "\n\n".join(filter(None, blocks))
