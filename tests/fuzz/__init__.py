"""Fuzzing of whatever reads bytes of strangers."""
