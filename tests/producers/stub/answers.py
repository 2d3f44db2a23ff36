"""What the scripted model answers to one request, before any protocol is put around it."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.producers.stub.scenarios import Call, Scenario, Script


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A model request as every protocol has it: the messages in order, and whether the answer is to be streamed."""

    # Role `user` (text of the user alone), `model` or `tool`.
    messages: Sequence[tuple[str, str]]
    model: str
    stream: bool


@dataclass(frozen=True, kw_only=True)
class MadeCall:
    """A call of the script with the id that the model gave it."""

    id: str
    call: Call

    @property
    def text(self) -> str:
        """The arguments as the model writes them."""
        written = self.call.arguments
        return written if isinstance(written, str) else json.dumps(written, ensure_ascii=False)

    @property
    def value(self) -> Any:
        """The arguments as an object, for protocols that know no text."""
        return {} if isinstance(self.call.arguments, str) else dict(self.call.arguments)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The model's output: calls, or a text where there are none."""

    id: str
    model: str
    text: str
    calls: tuple[MadeCall, ...]
    script: Script | None
    step: int


class Model:
    """Chooses script and step. Without memory but for hand-offs, where histories differ most between frameworks."""

    def __init__(self, producer: str, scenario: Scenario) -> None:
        self._producer = producer
        self._scenario = scenario
        self._asked: dict[str, int] = {}

    def answer(self, asked: Asked, body: str) -> Answer:
        """Answer the newest text of a user that has a script."""
        found = self._script(asked)
        if found is None:
            return Answer(id="none", model=asked.model, text="Done.", calls=(), script=None, step=0)
        script, at = found
        step = self._step(script, asked.messages[at + 1 :], body)
        calls = self.calls(script, step) if step < len(script.steps) else ()
        return Answer(
            id=self._id(script.text, str(step)),
            model=asked.model,
            text="" if calls else script.final,
            calls=calls,
            script=script,
            step=step,
        )

    def calls(self, script: Script, step: int) -> tuple[MadeCall, ...]:
        """Return the calls of one step with their ids, which are the same each time."""
        return tuple(
            MadeCall(id="call_" + self._id(script.text, str(step), str(position)), call=call)
            for position, call in enumerate(script.steps[step])
        )

    def _script(self, asked: Asked) -> tuple[Script, int] | None:
        scripts = (*self._scenario.runs, *self._scenario.below)
        for at in range(len(asked.messages) - 1, -1, -1):
            role, text = asked.messages[at]
            for script in scripts:
                if role == "user" and script.text in text:
                    return script, at
        return None

    def _step(self, script: Script, later: Sequence[tuple[str, str]], body: str) -> int:
        if len(script.agents) > 1:
            step = self._asked.get(script.text, 0)
            self._asked[script.text] = step + 1
            return min(step, len(script.steps))
        answered = sum(any(made.id in body for made in self.calls(script, step)) for step in range(len(script.steps)))
        # A protocol without ids: each block of the model's messages was one answer.
        blocks = sum(role == "model" and (at == 0 or later[at - 1][0] != "model") for at, (role, _) in enumerate(later))
        return min(answered or blocks, len(script.steps))

    def _id(self, *parts: str) -> str:
        return hashlib.sha256("|".join((self._producer, self._scenario.name, *parts)).encode()).hexdigest()[:10]


def pieces(text: str, size: int = 16) -> list[str]:
    """Cut a text as a model streams it."""
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]
