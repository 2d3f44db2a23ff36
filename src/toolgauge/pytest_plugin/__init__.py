"""The pytest plugin: tests of agents that assert on the tool calls which their spans show."""
