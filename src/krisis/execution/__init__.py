"""How batches travel: concurrency, limits, retries, cache, journal, progress."""
