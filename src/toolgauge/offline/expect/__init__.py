"""Recorded runs become references: a criterion, or lines of a reference file."""
