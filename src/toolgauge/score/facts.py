"""Facts about one trajectory that several evaluators need, each found once."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.expected import Expected
from toolgauge.model.json import leaves
from toolgauge.model.judging import Judged
from toolgauge.model.left_out import RememberedEffects
from toolgauge.model.outcomes import once
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory, made_good
from toolgauge.score.contracts import BY_NAME, ToolKinds
from toolgauge.score.error_texts import ErrorTexts, with_error_texts
from toolgauge.score.final_answers import LONGEST_ANSWER, answers
from toolgauge.score.origins.grounding import Seen
from toolgauge.score.recorded_values import occurs_alone, result_leaves, written
from toolgauge.score.selection import CallSelection, has_taken_effect, readable_arguments
from toolgauge.score.tool_offers import RunOffers

EarlierTracesSeen: TypeAlias = Literal["seen", "unseen"]
# So many failed reads are compared with all that was known before them.
_MAX_READS = 50


class Facts(Struct, dict=True, eq=False):
    """A trajectory, its calls without effect, the tools on offer, and the kinds of tools."""

    trajectory: Trajectory
    kinds: ToolKinds = BY_NAME
    # The texts seen before the calls, once an evaluator has gone through all calls.
    seen: Seen | None = None
    # What the conversation is remembered by beside its values, once an evaluator has gone through its calls.
    effects: RememberedEffects | None = None

    def given(self, trajectory: Trajectory) -> Seen:
        """Return all texts that the agent was given; the trajectory is the one here, or that without the earlier traces."""
        if trajectory is not self.trajectory:
            seen = Seen(trajectory)
        else:
            seen = self.seen = self.seen or Seen(trajectory)
        seen.take_all()
        return seen

    @once
    def answers(self) -> tuple[str, ...]:
        """The answers of the agent, as far as they are read."""
        return tuple([message.text[:LONGEST_ANSWER] for message in answers(self.trajectory)])

    @once
    def error_texts(self) -> ErrorTexts:
        """Calls with a result that reads like an error."""
        return with_error_texts(self.trajectory)

    @once
    def without_effect(self) -> tuple[ToolCall, ...]:
        """Calls that failed, also by their results alone, or were stopped before they ran."""
        return tuple([call for call in self.error_texts.trajectory.calls if not has_taken_effect(call)])

    def made_good(self, calls: Sequence[ToolCall]) -> dict[int, ToolCall]:
        """Map the order of each failed call that was made good to the first success after it."""
        found = made_good(calls)
        failed = [call for call in calls if call.order in found]
        for call in failed[:_MAX_READS]:
            if self._is_other(call, found[call.order]):
                del found[call.order]
        return found

    def _is_other(self, failed: ToolCall, success: ToolCall) -> bool:
        """Return whether a read after a failed one is of another thing, known before, and so not a retry."""
        wanted, found = (
            {value for leaf in leaves(readable_arguments(call)) if (value := written(leaf))}
            for call in (failed, success)
        )
        if failed.name in self.trajectory.writing_tools or not wanted or not found or wanted & found:
            return False
        turn = failed.turn
        texts = [one.text for one in self.trajectory.messages if one.role != "assistant" and one.turn <= turn]
        texts += [
            str(leaf) for call in self.trajectory.calls if call.turn < turn for leaf in result_leaves(call.result)
        ]
        return all(any(occurs_alone(value, text) for text in texts) for value in wanted | found)

    @once
    def offers(self) -> RunOffers:
        """The tools that each call is judged by."""
        return RunOffers(self.trajectory)


class TakesFacts:
    """An evaluator of ours that needs no reference. All of them share the scorer's facts."""

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield outcomes."""
        return iter(self.outcomes(Facts(trajectory)))

    @abstractmethod
    def outcomes(self, facts: Facts) -> Iterable[Judged]:
        """Yield or return outcomes about the trajectory."""
        ...


class FactsEvaluator(TakesFacts, CallSelection):
    """An evaluator that selects calls."""


class EarlierTracesEvaluator(FactsEvaluator):
    """An evaluator that judges a trace by what earlier traces of its conversation showed, too."""

    # Whether this process receives all traces of a conversation; of several that share them, each sees a part.
    earlier_traces: EarlierTracesSeen = "seen"

    @property
    def needs(self) -> Needs:
        """What its parameters ask for."""
        return Needs(reference="none", recent_offer=True, earlier_traces=self.earlier_traces == "seen")

    def as_seen(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory without that memory where this process sees a part of each conversation."""
        is_hidden = self.earlier_traces == "unseen" and trajectory.earlier is not None
        return replace(trajectory, earlier=None) if is_hidden else trajectory
