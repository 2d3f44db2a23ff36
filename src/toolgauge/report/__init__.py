"""Trajectories and their verdicts as people read them: text, HTML, JSON, and files for CI."""
