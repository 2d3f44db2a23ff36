"""The web view: what was scored, and why, for people with a browser. It reads, and changes nothing."""
