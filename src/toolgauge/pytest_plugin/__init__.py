"""The pytest plugin: assertions in tests of agents on the tool calls in their spans."""
