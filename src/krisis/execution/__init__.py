"""How a batch travels: concurrency, limits, retries, journal, cache and progress."""
