"""Remembers the ids and numbers that the traces of each conversation showed, and the effects of their calls.

Without it, an id from an earlier turn would look invented, and a second refund like a first one. The conversations, the values
of one and of all are bounded; a conversation whose values were dropped is marked, so that the loss never fails an agent.
"""

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from zlib import crc32

from msgspec.structs import replace

from toolgauge.model.journal import ShownValues
from toolgauge.model.left_out import WORD_HASH_BYTES, EarlierValues, RememberedEffects, UserText, marked, with_hashes
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.effects import Effects
from toolgauge.score.origins import value_forms
from toolgauge.score.origins.grounding import Seen
from toolgauge.score.selection import has_taken_effect, readable_arguments

# Of one conversation, and of all together.
_MAX_VALUES = 16_384
MAX_BYTES = 32 * 1024 * 1024
# The part of these that gives way together.
_AT_ONCE = 100
_KEY_BYTES = 16
_MAX_SERVICES = 1000
_LONGEST_WORD = 64
_LONGEST_TEXTS = 4096
# An object, its time, and the two texts besides their letters.
_TEXT_BYTES = 200
# Longer system prompts are seldom the same for many traces.
_LONGEST_KNOWN = 65_536


_READER = marked("reader")
_NOTHING = EarlierValues()


# `live_since_ns` is when this process began to receive; `None` where it missed nothing. Until `ongoing_ns` later, a conversation
# that is new here may be older.
class EarlierTraces:
    """The memory of the newest `capacity` conversations; `is_divided` where other processes receive traces of them too.

    With a journal `take_changes` is to be called after each trace.
    """

    def __init__(
        self,
        capacity: int,
        *,
        live_since_ns: int | None = None,
        ongoing_ns: int = 0,
        is_divided: bool = False,
        has_journal: bool = True,
    ) -> None:
        self._capacity = capacity
        self._has_journal = has_journal
        self._ongoing_ns = ongoing_ns
        self._is_divided = is_divided
        self._since_ns = live_since_ns
        # Services that were at work at that moment.
        self._ongoing: set[str | None] = set()
        # By digests of conversation ids, least recently used first.
        self._known: dict[bytes, EarlierValues] = {}
        self._size_bytes = 0
        self._changed: dict[bytes, None] = {}

    def receive_since(self, live_since_ns: int) -> None:
        """Reset the time when this process began to receive, unless nothing was missed before."""
        if self._since_ns is not None:
            self._since_ns = live_since_ns

    def with_earlier(self, trajectory: Trajectory) -> Trajectory:
        """Return a trace with the values of earlier traces of its conversation."""
        if trajectory.scope != "trace" or trajectory.conversation_id is None:
            return trajectory
        known, gap = self._known.get(_key(trajectory.conversation_id), _NOTHING), None
        if trajectory.has_beginning or trajectory.earlier_turns is not None:
            # It shows everything before it.
            pass
        elif known.has_traces and (known.gap is not None or not self._is_divided):
            gap = known.gap
        else:
            # Earlier turns may be unseen where the first input holds earlier turns without results, where other processes receive traces
            # of the same conversations, and soon after the start of this process, where the service was at work at that moment.
            since_ns = self._since_ns
            is_near_start = since_ns is not None and trajectory.start_ns < since_ns + self._ongoing_ns
            may_be_older = is_near_start and (trajectory.service in self._ongoing or self._spans_start(trajectory))
            if trajectory.has_beginning is False or self._is_divided or may_be_older:
                gap = "incomplete"
        return replace(trajectory, earlier=replace(known, gap=gap))

    def remember(
        self, trajectory: Trajectory, seen: Seen | None = None, effects: RememberedEffects | None = None
    ) -> None:
        """Add the values of a trace that `with_earlier` returned; `seen` and `effects` are what evaluators found in it."""
        before, conversation_id = trajectory.earlier, trajectory.conversation_id
        if before is None or conversation_id is None:
            return
        if self._spans_start(trajectory) and len(self._ongoing) < _MAX_SERVICES:
            self._ongoing.add(trajectory.service)
        seen = seen or Seen(trajectory)
        seen.take_all()
        found = _hashes(b"  ".join((*seen.user.contents, *seen.results.contents)))
        for content in seen.system.contents:
            found |= (_known_hashes if len(content) <= _LONGEST_KNOWN else _hashes)(content)
        found.update(map(crc32, _marks(seen, trajectory, found)))
        hashes = with_hashes(before.hashes, found)
        unseen = seen.gap_of_results
        gap = before.gap or (unseen and unseen.reason) or (trajectory.incomplete and "incomplete")
        if len(hashes) > _MAX_VALUES * WORD_HASH_BYTES:
            hashes, gap = b"", gap or "incomplete"
        has_user = before.has_user or any(seen.user.contents)
        acts, texts = effects or (before.effects, before.user_texts)
        if texts and _length(texts) > _LONGEST_TEXTS:
            acts, texts = Effects(acts, texts).resolved(), ()
        values = EarlierValues(hashes, has_traces=True, has_user=has_user, gap=gap, effects=acts, user_texts=texts)
        self._put(_key(conversation_id), values)

    def forget(self, trajectory: Trajectory) -> None:
        """Mark the conversation of a trace that was not looked at: its values are missing."""
        if trajectory.scope == "trace" and trajectory.conversation_id is not None:
            self._put(_key(trajectory.conversation_id), _without_values("incomplete", has_user=False))

    def take_changes(self) -> Sequence[ShownValues]:
        """Return the conversations that changed since the last call."""
        changed, self._changed = self._changed, {}
        found: list[ShownValues] = []
        for key in changed:
            values = self._known[key]
            if values.user_texts:
                values = replace(values, effects=Effects(values.effects, values.user_texts).resolved(), user_texts=())
            found.append(ShownValues(conversation=key, values=values))
        return found

    def restore(self, shown: Iterable[ShownValues]) -> None:
        """Take over the memory of an earlier process, in the order of time."""
        for one in shown:
            self._put(one.conversation, one.values)
        self._changed.clear()

    def _spans_start(self, trajectory: Trajectory) -> bool:
        return self._since_ns is not None and trajectory.start_ns < self._since_ns < trajectory.end_ns

    def _put(self, key: bytes, values: EarlierValues) -> None:
        self._take_out(key)
        self._known[key] = values
        if self._has_journal:
            self._changed[key] = None
        self._size_bytes += _size(values)
        # Several at once: to find the first of a dict, Python passes over all that were taken out before it.
        if len(self._known) > self._capacity:
            for oldest in [*islice(self._known, self._capacity // _AT_ONCE + 1)]:
                self._take_out(oldest)
        if self._size_bytes > MAX_BYTES:
            self._drop_values(MAX_BYTES - MAX_BYTES // _AT_ONCE)

    def shed(self) -> None:
        """Give back half of the memory that values take."""
        self._drop_values(self._size_bytes // 2)

    def _drop_values(self, most_bytes: int) -> None:
        for key, values in self._known.items():
            if self._size_bytes <= most_bytes:
                return
            if _size(values):
                # That its values are missing stays known.
                self._size_bytes -= _size(values)
                self._known[key] = _without_values(values.gap or "incomplete", has_user=values.has_user)

    def _take_out(self, key: bytes) -> None:
        known = self._known.pop(key, None)
        self._changed.pop(key, None)
        if known is not None:
            self._size_bytes -= _size(known)


def _size(values: EarlierValues) -> int:
    texts = values.user_texts
    return len(values.hashes) + len(values.effects) + (_length(texts) if texts else 0)


def _length(texts: Sequence[UserText]) -> int:
    return sum([len(one.text) + len(one.questions) + _TEXT_BYTES for one in texts])


def _marks(seen: Seen, trajectory: Trajectory, known: Set[int]) -> list[bytes]:
    """Return words for what else later traces are judged by: tools that worked, ids in arguments, and spelled ones."""
    found = [_READER, *[marked("argument", one) for one in value_forms.spelled(b"\n".join(seen.user.contents))]]
    for call in trajectory.calls:
        if has_taken_effect(call):
            found.append(marked("worked", call.name.encode("utf-8", "replace")))
            arguments = readable_arguments(call) or {}
            texts = [
                one.lower().encode() for one in arguments.values() if isinstance(one, str) and len(one) < _LONGEST_WORD
            ]
            found += [marked("argument", one) for one in texts if not one.isalpha() and crc32(one) not in known]
    return found


def _key(conversation_id: str) -> bytes:
    return blake2b(conversation_id.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()


# One object serves for all conversations whose values were dropped.
@lru_cache(maxsize=64)
def _without_values(gap: str, *, has_user: bool) -> EarlierValues:
    return EarlierValues(has_traces=True, has_user=has_user, gap=gap)


def _hashes(content: bytes) -> set[int]:
    """Return the hashes of the ids and numbers in a text, and of the forms of its ids."""
    words = value_forms.id_words(content)
    found = value_forms.ids(words)
    found.update([marked("form", form) for form in value_forms.forms(words)])
    return set(map(crc32, found))


# The instructions of an agent come again with each of its traces.
_known_hashes = lru_cache(maxsize=64)(_hashes)
