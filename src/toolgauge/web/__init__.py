"""The web view: scored trajectories and their verdicts, for people with a browser. It only reads."""
