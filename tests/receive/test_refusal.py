from google.rpc.error_details_pb2 import RetryInfo
from grpc import StatusCode

from tests.rows import each_row
from toolgauge.model.delivery import Answer, Invalid, Refused, Unsupported
from toolgauge.receive.refusal import Refusal, failed, refusal


def retry_delay_s(told: Refusal) -> float | None:
    info = RetryInfo()
    for detail in told.status_message().details:
        if detail.Unpack(info):
            return info.retry_delay.seconds + info.retry_delay.nanos / 1e9
    return None


@each_row(
    ("answer", "code", "http_status", "retry_s"),
    [
        (Refused("queue is full", 0.4), StatusCode.UNAVAILABLE, 503, 0.4),
        (Refused("queue is full", 0.0), StatusCode.UNAVAILABLE, 503, 0.0),
        (Invalid("field 3 is cut off"), StatusCode.INVALID_ARGUMENT, 400, None),
        (Unsupported("metrics are not accepted"), StatusCode.UNIMPLEMENTED, 404, None),
    ],
)
def test_answer_is_said_in_the_words_of_both_transports(
    answer: Refused | Invalid | Unsupported, code: StatusCode, http_status: int, retry_s: float | None
):
    told = refusal(answer)
    assert (told.code, told.http_status, told.message) == (code, http_status, answer.message)
    status = told.status_message()
    assert (status.code, status.message) == (code.value[0], answer.message)
    assert retry_delay_s(told) == retry_s


def test_short_memory_may_pass():
    told = failed(MemoryError())
    assert (told.code, told.http_status) == (StatusCode.UNAVAILABLE, 503)
    assert retry_delay_s(told) == 5.0


def test_long_message_is_cut_so_that_a_header_can_carry_it():
    answer: Answer = Invalid("x" * 100_000)
    assert refusal(answer).status_message().ByteSize() < 500
