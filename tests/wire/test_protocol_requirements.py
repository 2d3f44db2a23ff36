"""Every requirement on OTLP receivers (A to D) and exporters (E), and the tests that prove it.

The letters are those of the black-box probe (`tools/scripts/otlp_probe.py`), which proves a part of A to D too.
"""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
PROBE = "wire/test_protocol_probe.py::test_nothing_that_the_probe_asks_for_is_missing"
_DESTINATION = "export/test_destination.py::test_"
_GRPC, _HTTP, _JSON = "receive/test_grpc.py::test_", "receive/test_http.py::test_", "receive/test_json.py::test_"
_ANSWERS, _OTLP_JSON = "receive/test_answers.py::test_", "otlp/test_otlp_json.py::test_"

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "A1": (PROBE, "wire/test_delivery.py::test_the_same_requests_arrive_identically_over_every_transport"),
    "A2": (PROBE, f"{_HTTP}empty_request_succeeds_without_the_consumer"),
    "A3": (PROBE, f"{_ANSWERS}a_request_is_taken_whole_or_not_at_all"),
    "A4": (f"{_ANSWERS}a_request_is_taken_whole_or_not_at_all",),
    "A5": (
        f"{_ANSWERS}a_request_is_taken_whole_or_not_at_all",
        "export/test_answers.py::test_success_with_another_body_is_a_success",
    ),
    "A6": (PROBE, "wire/test_hostile.py::test_gzip_bombs_are_too_large_and_cost_no_memory"),
    "A7": (PROBE, f"{_ANSWERS}long_reason_is_cut_in_every_form"),
    "A8": (PROBE, "otlp/test_traps.py::test_unknown_fields_and_groups_in_a_span_are_kept"),
    "A9": (
        f"{_GRPC}one_stuck_request_does_not_hold_up_twenty_others_on_its_connection",
        f"{_HTTP}half_sent_requests_do_not_hold_up_twenty_others",
    ),
    "A10": ("otlp/test_views.py::test_types_of_values_stay_apart_also_where_they_are_remembered",),
    "A11": ("wire/test_delivery.py::test_a_lost_acknowledgement_makes_duplicates_but_no_second_score",),
    "A12": (PROBE, "wire/test_delivery.py::test_metrics_of_senders_are_refused_plainly_where_nothing_is_sent_on"),
    "A13": (PROBE, "wire/test_serve.py::test_it_listens_on_loopback_only_and_says_on_which_ports"),
    "B1": (f"{_GRPC}each_service_has_its_signal",),
    "B2": (PROBE, f"{_GRPC}request_over_the_limit_is_exhausted_for_good"),
    "B3": (f"{_GRPC}refused_request_is_unavailable_with_the_time_to_come_back",),
    "B4": ("receive/test_refusal.py::test_short_memory_may_pass",),
    "B5": (
        f"{_GRPC}refusal_for_good_has_its_code_and_message",
        f"{_GRPC}fault_behind_the_handler_is_never_unknown",
    ),
    "B6": (
        f"{_ANSWERS}old_connections_are_closed_without_losing_a_request",
        f"{_ANSWERS}idle_connections_are_closed",
        f"{_ANSWERS}streams_of_one_connection_are_bounded_and_the_rest_wait_or_are_told_to_come_back",
    ),
    "B7": (PROBE, "receive/test_security.py::test_grpc_health_says_not_serving_while_stopping"),
    "C1": (f"{_HTTP}each_path_has_its_signal_and_the_media_type_may_have_parameters",),
    "C2": (PROBE, f"{_JSON}json_request_arrives_as_protobuf_and_is_answered_in_json"),
    "C3": (PROBE, f"{_ANSWERS}a_request_is_taken_whole_or_not_at_all"),
    "C4": (PROBE, f"{_HTTP}wrong_request_is_refused_with_a_status_body"),
    "C5": (PROBE, f"{_HTTP}body_that_grows_over_the_limit_is_413"),
    "C6": (PROBE, f"{_HTTP}wrong_request_is_refused_with_a_status_body"),
    "C7": (f"{_HTTP}consumers_refusal_is_a_status_with_a_body",),
    "C8": ("receive/test_refusal.py::test_answer_is_said_in_the_words_of_both_transports",),
    "C9": (PROBE, f"{_HTTP}expect_100_continue_is_answered", f"{_HTTP}connection_is_kept_for_the_next_request"),
    "C10": (
        PROBE,
        f"{_HTTP}half_sent_headers_are_closed",
        f"{_HTTP}half_sent_body_is_plainly_claimed_408_and_closed",
        f"{_HTTP}long_body_that_breaks_off_is_plainly_claimed_408_as_soon_as_a_short_one",
        "wire/test_uploads.py::test_half_sent_bodies_stay_within_the_limit_of_memory",
    ),
    "C11": (
        PROBE,
        "receive/test_security.py::test_other_pages_are_told_nothing",
        "receive/test_security.py::test_allowed_page_may_ask_and_send",
    ),
    "D1": (
        PROBE,
        f"{_OTLP_JSON}bytes_are_base64_of_either_alphabet_padded_or_not",
    ),
    "D2": (PROBE, f"{_OTLP_JSON}a_value_of_the_wrong_type_is_an_error_and_no_crash"),
    "D3": (PROBE,),
    "D4": (f"{_OTLP_JSON}a_document_of_other_keys_or_of_another_signal_is_an_error",),
    "D5": (PROBE, f"{_OTLP_JSON}integers_are_read_from_text_and_number_and_doubles_from_names"),
    "D6": (PROBE, f"{_OTLP_JSON}integers_are_read_from_text_and_number_and_doubles_from_names"),
    "D7": (PROBE, "wire/test_hostile.py::test_ids_of_wrong_length_cost_their_neighbours_nothing"),
    "D8": (PROBE, "fuzz/test_fuzz.py::test_sound_inputs_changed_by_chance_do_no_harm"),
    "D9": (
        f"{_OTLP_JSON}an_id_that_is_not_hex_of_the_right_length_names_its_path",
        "otlp/test_otlp_json_against_stock.py::test_valid_document_becomes_what_the_stock_parser_makes_of_it",
    ),
    "E1": (
        f"{_DESTINATION}transient_answer_is_tried_again",
        f"{_DESTINATION}exhausted_with_retry_info_is_tried_again",
        f"{_DESTINATION}connections_cut_in_the_middle_of_requests_lose_nothing",
        f"{_DESTINATION}answer_that_is_no_http_is_tried_again",
        "export/test_backoff.py::test_waits_are_jittered_by_the_factor",
    ),
    "E2": (f"{_DESTINATION}permanent_answer_is_dropped_and_counted",),
    "E3": (f"{_DESTINATION}partial_success_is_counted_and_never_retried",),
    "E4": (f"{_DESTINATION}the_wait_that_a_destination_asks_for_is_kept",),
    "E5": ("export/test_parts.py::test_what_is_larger_than_the_destination_takes_is_sent_in_parts",),
    "E6": (f"{_DESTINATION}enormous_answer_is_a_permanent_error",),
    "E7": (f"{_DESTINATION}hanging_request_does_not_hold_up_twenty_others",),
    "E8": (f"{_DESTINATION}outage_is_logged_once_and_shows_no_content",),
    "E9": (
        "export/test_fan_out.py::test_dead_destination_does_not_stop_the_others_and_its_losses_are_its_own",
        "wire/test_split_signals.py::test_traces_go_on_while_the_destination_of_logs_is_dead_and_full",
    ),
    "E10": ("walk/test_requests_out.py::test_no_empty_envelope_is_sent",),
    "E11": ("export/test_identity.py::test_requests_tell_who_sends_them",),
    "E12": ("export/test_identity.py::test_waits_by_default_are_those_of_the_collector",),
    "E13": (
        f"{_DESTINATION}dead_destination_fills_the_queue_and_no_more",
        "wire/test_delivery.py::test_a_dead_destination_under_load_costs_bounded_memory_and_senders_are_told",
    ),
    "E14": (
        f"{_DESTINATION}drain_ends_the_waits_and_tries_again_at_once",
        f"{_DESTINATION}drain_of_a_dead_destination_says_what_was_lost",
    ),
}


def test_every_requirement_is_in_the_table_and_its_tests_exist():
    counts = {"A": 13, "B": 7, "C": 11, "D": 9, "E": 14}
    assert list(REQUIREMENTS) == [f"{letter}{each}" for letter, last in counts.items() for each in range(1, last + 1)]
    places = [test.split("::") for tests in REQUIREMENTS.values() for test in tests]
    texts = {file: (TESTS / file).read_text() for file, _ in places}
    assert [place for place in places if not re.search(rf"(?m)^(async )?def {place[1]}\(", texts[place[0]])] == []
