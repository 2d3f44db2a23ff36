"""Measures and cuts the text that observations carry: messages, arguments, results, error messages.

Cutting twice gives what cutting once at the lower level gives, so that what is left of a text does not
depend on what arrived before it. Levels are powers of two for that reason.
"""

import json
from collections.abc import Hashable, Iterator

from msgspec.structs import replace

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.left_out import MARK
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolsOffered,
)


def texts(observation: Observation) -> Iterator[str]:
    """Yield the texts that an observation carries."""
    match observation:
        case MessageSeen(text=text):
            yield text
        case CallRequested(arguments=arguments):
            yield _text(arguments)
        case CallAnswered(result=result, error=error):
            yield _text(result)
            yield error.message if error is not None else ""
        case CallExecuted(arguments=arguments, result=result, error=error):
            yield _text(arguments)
            yield _text(result)
            yield error.message if error is not None else ""
        case _:
            return


def sizes(observation: Observation) -> Iterator[int]:
    """Yield the sizes, in characters, of the texts that an observation carries."""
    return (len(text) for text in texts(observation))


def identity(observation: Observation) -> Hashable | None:
    """Return what tells repetitions of an observation; `None` for one that stands for itself."""
    match observation:
        case MessageSeen(role=role, text=text):
            return ("message", role, hash(text), len(text))
        case CallAnswered(call_id=call_id, name=name, result=result, error=error):
            text = _text(result)
            return ("answer", call_id, name, _kind(result), hash(text), len(text), error)
        case ToolsOffered(tools=tools):
            return ("offer", *((tool.name, tool.description, hash(_as_json(tool.parameters))) for tool in tools))
        case _:
            return None


def fingerprint(observation: Observation) -> Hashable:
    """Return what tells any two observations apart, without holding on to their texts."""
    match observation:
        case CallRequested(arguments=arguments):
            text = _text(arguments)
            known = (observation.position, observation.name, observation.call_id, observation.agent)
            return ("requested", *known, observation.usable, _kind(arguments), hash(text), len(text))
        case CallExecuted(arguments=arguments, result=result):
            known = (observation.name, observation.call_id, observation.agent, observation.error)
            kinds = (_kind(arguments), _kind(result))
            return ("executed", *known, kinds, hash(_text(arguments)), hash(_text(result)))
        case AgentRun() | ModelCall() | ConversationSeen():
            return observation
        case _:
            return identity(observation)


def cut(observation: Observation, level: int) -> Observation:
    """Return the observation with no text longer than `level`; itself when nothing is."""
    if all(size <= level for size in sizes(observation)):
        return observation
    match observation:
        case MessageSeen():
            return replace(observation, text=cut_text(observation.text, level))
        case CallRequested():
            return replace(observation, arguments=_cut_content(observation.arguments, level))
        case CallAnswered():
            return replace(
                observation,
                result=_cut_content(observation.result, level),
                error=_cut_error(observation.error, level),
            )
        case CallExecuted():
            return replace(
                observation,
                arguments=_cut_content(observation.arguments, level),
                result=_cut_content(observation.result, level),
                error=_cut_error(observation.error, level),
            )
        case _:
            return observation


def cut_text(text: str, level: int) -> str:
    """Keep both ends of a text that is longer than `level`, an even number of characters, with a mark between."""
    if len(text) <= level:
        return text
    kept = (level - len(MARK)) // 2
    return text[:kept] + MARK + text[len(text) - kept :]


def _cut_content(content: Content, level: int) -> Content:
    text = _text(content)
    if len(text) <= level:
        return content
    # That a text was broken from the start stays known: it is why the call was turned down.
    reason = content.reason if isinstance(content, Unparsed) else "truncated"
    return Unparsed(text=cut_text(text, level), reason=reason)


def _cut_error(error: CallError | None, level: int) -> CallError | None:
    return None if error is None else replace(error, message=cut_text(error.message, level))


def _kind(content: Content) -> Hashable:
    """Tell apart what has the same text: a number or an object, and a text that reads like it."""
    return type(content), type(content.value) if isinstance(content, Recorded) else None


def _text(content: Content) -> str:
    match content:
        case Recorded(value=str() as text) | Unparsed(text=text):
            return text
        case Recorded(value=value):
            return _as_json(value)
        case NotRecorded():
            return ""


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        # Deeper than anything a tool takes or returns; its bytes count against the limit of all traces.
        return ""
