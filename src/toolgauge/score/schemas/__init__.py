"""The schemas of tools: read from what producers write, and arguments checked against them."""
