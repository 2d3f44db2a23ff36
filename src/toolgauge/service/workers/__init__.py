"""The front and its workers: one address, several processes."""
