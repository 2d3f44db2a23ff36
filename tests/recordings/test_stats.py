"""Figures of a recording."""

from tests.recordings.corpus import counted, recordings


def test_figures_of_a_recording_without_arguments():
    assert counted(recordings("mcp-python")).as_object() == {
        "records": {
            "all": 53,
            "read": 53,
            "unread": 0,
            "undecodable": 0,
            "dialect_errors": 0,
            "without_trace": 0,
        },
        "dialects": {"genai": 53},
        "scopes": {
            "fastmcp": {"all": 12, "read": 12},
            "mcp-python-sdk": {"all": 35, "read": 35},
            "my-agent": {"all": 6, "read": 6},
        },
        "trajectories": {"all": 9, "without_calls": 0, "closed_because": {"run_ended": 6, "idle": 3}},
        "calls": {
            "all": 16,
            "dialects": {"genai": 16},
            "states": {"executed": 16},
            "arguments": {"not_recorded": 16},
            "results": {"not_recorded": 14, "error": 2},
        },
        "not_observable": {"call_id": 16, "tool_definitions": 9, "user_text": 9, "conversation_id": 3},
    }
