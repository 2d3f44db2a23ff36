"""Contract checkers for plug-ins: call them from a test; they raise `AssertionError` with a sentence about the fault."""
