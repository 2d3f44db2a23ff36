"""Conditions that rules of a criterion put on calls: patterns, expressions, confirmations."""
