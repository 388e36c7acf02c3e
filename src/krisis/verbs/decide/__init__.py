"""What answering and deferring cost, and from which confidence on to answer."""
