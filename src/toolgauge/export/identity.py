"""Ids that are derived from contents, so that a destination can drop repetitions.

The same scorecard written by another process, or after a restart, has the same ids: times of writing are no part of them.
"""

from collections.abc import Iterable
from hashlib import blake2b

from toolgauge.otlp.encode import tag, text_attribute

RECORD_UID = "log.record.uid"

# Results of one subject are few, subjects are many.
_RESULT_BYTES, _SUBJECT_BYTES = 6, 10
_DIGITS = 2 * (_RESULT_BYTES + _SUBJECT_BYTES)
_NO_ID = bytes(8)
# All of the attribute of a LogRecord but its digits.
_BEFORE_UID = tag(6) + text_attribute(RECORD_UID, "0" * _DIGITS)[:-_DIGITS]


def span_id_of(kind: str, contents: Iterable[bytes]) -> bytes:
    """Derive the id of a span of ours from its other fields."""
    digest = blake2b(b"".join(contents), digest_size=8, person=kind.encode()).digest()
    # An id of zeros is not valid.
    return digest if digest != _NO_ID else b"\x01" * 8


# A record's id has two parts, each written once for many records: one hash a record costs twice as much, a third of encoding.
def begin_uid(record: bytes) -> bytes:
    """Begin the attribute with the id of an evaluation's record, derived from the result; the subject's digits must follow."""
    return _BEFORE_UID + blake2b(record, digest_size=_RESULT_BYTES).hexdigest().encode()


def uid_of_subject(*contents: bytes) -> bytes:
    """Write the digits that end this attribute, derived from the judged call or trajectory."""
    return blake2b(b"".join(contents), digest_size=_SUBJECT_BYTES).hexdigest().encode()


def record_uid(content: bytes) -> str:
    """Derive the id of any other log record of ours."""
    return blake2b(content, digest_size=_DIGITS // 2).hexdigest()
