"""Learns receipts: which sequences of words do answers hold after a tool worked, and never before?"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from zlib import crc32

from toolgauge.authoring.criteria_yaml import Commented, Written
from toolgauge.model.trajectory import Trajectory, has_succeeded
from toolgauge.report.terminal import counted
from toolgauge.score.answer_claims import act_ideas, acts_of
from toolgauge.score.final_answers import answers, sequences

# The runs with a receipt. A sequence in fewer may be there by chance, or be somebody's name.
_FEWEST_RUNS = 8
# So many answers show that they do not hold it otherwise.
_FEWEST_BEFORE = 50
_MAX_TOOLS, _MAX_RECEIPTS, _MAX_SEQUENCES = 64, 20, 300_000
_SLOTS = 1 << 18


class ReceiptUsage:
    """Counts the sequences of words in the answers of a service. Runs are added one by one."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}
        self._runs: Counter[str] = Counter()
        # All answers, and by tool those after it had worked.
        self._all = 0
        self._with_tool: Counter[int] = Counter()

    @cached_property
    def _after(self) -> "array[int]":
        """By hash, the tools that had worked whenever a sequence was seen, as bits. Two sequences of one hash only hide each other."""
        return array("Q", [2**64 - 1]) * _SLOTS

    def add(self, trajectory: Trajectory) -> None:
        """Add one run."""
        worked = [call for call in trajectory.calls if call.name in trajectory.writing_tools and has_succeeded(call)]
        for call in worked:
            if len(self._bits) < _MAX_TOOLS:
                self._bits.setdefault(call.name, 1 << len(self._bits))
        seen: set[str] = set()
        for message in answers(trajectory):
            tools = 0
            for call in worked:
                is_timed = message.time_ns and call.end_ns
                if message.time_ns >= call.end_ns if is_timed else message.turn > call.turn:
                    tools |= self._bits.get(call.name, 0)
            self._all += 1
            self._with_tool.update(bit for bit in self._bits.values() if bit & tools)
            for sequence in sequences(message.text):
                slot = crc32(sequence.encode()) % _SLOTS
                self._after[slot] &= tools
                if self._after[slot]:
                    seen.add(sequence)
        for sequence in seen:
            if sequence in self._runs or len(self._runs) < _MAX_SEQUENCES:
                self._runs[sequence] += 1

    def written(self) -> Mapping[str, Sequence[Written]]:
        """Write the receipts of each tool, with the runs that had each."""
        found = {tool: self._of(tool) for tool in sorted(self._bits)}
        return {
            tool: [Commented(one, counted(runs, "run")) for one, runs in receipts.items()]
            for tool, receipts in found.items()
            if len(receipts) > 1
        }

    def _of(self, tool: str) -> Mapping[str, int]:
        bit, acts = self._bits[tool], acts_of(tool)
        if self._all - self._with_tool[bit] < _FEWEST_BEFORE:
            return {}
        found = {
            sequence: runs
            for sequence, runs in sorted(self._runs.items(), key=lambda one: (-one[1], one[0]))
            if runs >= _FEWEST_RUNS and " " in sequence and self._is_after(sequence, bit)
        }
        named = [one for one in found if any(acts.ideas & act_ideas(word) or acts.has(word) for word in one.split())]
        # In a language without known acts: a word that no answer held before.
        is_known = any(act_ideas(word) for one in found for word in one.split())
        chosen = named if is_known else [one for one in found if any(self._is_after(word, bit) for word in one.split())]
        return {one: found[one] for one in chosen[:_MAX_RECEIPTS]}

    def _is_after(self, sequence: str, bit: int) -> bool:
        return bool(self._after[crc32(sequence.encode()) % _SLOTS] & bit)
