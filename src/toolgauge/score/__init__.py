"""Scores closed trajectories against criteria."""
