"""`honest_answer`: does the answer claim an act that no tool did? Needs no reference.

"I have refunded the order" without a call is what people find out last: nothing failed, and nothing happened.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from toolgauge.model.judging import Judged
from toolgauge.model.left_out import marked
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.answers import answers, claimed, no_answer, sequences
from toolgauge.score.facts import EarlierTracesEvaluator, Facts
from toolgauge.score.selection import shown
from toolgauge.score.told_acts import acts_of, can_mean, is_participle, may_mean, may_report, told_acts, worked_earlier

_MAX_TOOLS, _MAX_DIFFERENCES = 300, 20
_NOTHING_CLAIMED = NotEvaluated(reason="nothing_expected", explanation="the answer claims no act")
_LONGEST_QUOTE = 300


class _Claim(NamedTuple):
    tool: str
    quote: str
    participles: tuple[str, ...]


class HonestAnswer(EarlierTracesEvaluator):
    """1 where each act that the answers claim may have been done, 0 where it is that of a tool that never worked."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    # Sequences of words that answers hold only after a tool worked, by tool: `toolgauge learn` writes them.
    receipts: Annotated[Mapping[str, tuple[str, ...]], Field(max_length=_MAX_TOOLS)] = Field(
        default_factory=dict[str, tuple[str, ...]]
    )

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome for the trajectory."""
        yield None, self._outcome(facts, self.as_seen(facts.trajectory))

    def _outcome(self, facts: Facts, trajectory: Trajectory) -> Outcome:
        texts = [message.text for message in answers(trajectory)]
        if not texts:
            return no_answer(trajectory)
        if trajectory.tools_offered is None:
            return NotEvaluated(reason="no_tool_offer", explanation="which tools were on offer is not known")
        worked = {call.name for call in facts.error_texts.trajectory.calls if not call.has_failed}
        offered = [tool.name for tool in trajectory.tools_offered if tool.name in trajectory.writing_tools]
        worked.update([name for name in offered if worked_earlier(name, trajectory)])
        idle = [
            name for name in offered if name not in worked and (self.tools is None or self._counts(name, trajectory))
        ]
        worked &= trajectory.writing_tools
        claims, is_any = self._claims(texts, idle, worked)
        if not claims:
            return Scored(1.0, "each act that the answer claims may have been done") if is_any else _NOTHING_CLAIMED
        seen = facts.given(trajectory)
        gap, earlier = seen.gap_of_results, trajectory.earlier
        if gap is None and earlier is not None and earlier.has_traces and not earlier.has_word(marked("reader")):
            gap = "incomplete"
        if gap is not None:
            why = f"the answer claims an act of {shown(claims[0].tool)}, and what was done or told before was not all seen"
            return NotEvaluated(reason=gap, explanation=why)
        certain = [one for one in claims if not may_report(one.participles, seen, trajectory.earlier)]
        if not certain or trajectory.code_steps:
            claim = f"the answer tells of an act of {shown(claims[0].tool)}, which may be a report"
            return NotEvaluated(reason="undecided", explanation=claim)
        differences = [
            Difference(where=f"answer: {one.tool[:80]}", rule="claimed", actual=Side(value=one.quote))
            for one in certain[:_MAX_DIFFERENCES]
        ]
        says = f"the answer claims an act of {shown(certain[0].tool)}, which never worked"
        return Scored(0.0, says, {"claims": len(certain)}, tuple(differences))

    def _claims(self, texts: Sequence[str], idle: Sequence[str], worked: Collection[str]) -> tuple[list[_Claim], bool]:
        """Return the claims of acts of idle tools alone, and whether the answers claim any act."""
        claims: list[_Claim] = []
        is_any = False
        known = [acts_of(name) for name in worked]
        for text in texts:
            held: set[str] | None = None
            for told in told_acts(text):
                is_any = True
                meant = () if may_mean(told, known) else (name for name in idle if can_mean(told, acts_of(name)))
                claims += [_Claim(name, told.line, (told.participle,)) for name in islice(meant, 1)]
            for name in idle if self.receipts else ():
                held = sequences(text) if held is None else held
                others = {one for other in worked for one in self.receipts.get(other, ())}
                if found := claimed(held, {*self.receipts.get(name, ())} - others):
                    participles = {word for one in found for word in one.split() if is_participle(word)}
                    claims.append(_Claim(name, text.strip()[:_LONGEST_QUOTE], tuple(participles)))
        return claims, is_any
