"""Answers a coding agent's questions about recordings over the Model Context Protocol; needs the extra `mcp`."""
