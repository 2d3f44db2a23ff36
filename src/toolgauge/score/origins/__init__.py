"""Where argument values come from: what an agent had seen, and which results held them."""
