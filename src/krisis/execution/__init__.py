"""How batches travel: concurrency, limits, retries, cache, journal, progress."""

from krisis.lazy_names import lazily

_HOMES = {
    "Cluster": "krisis.execution.cluster",
    "Execution": "krisis.execution.options",
    "Recorder": "krisis.execution.recorder",
    "progress_display": "krisis.execution.progress",
}
__all__ = [
    "Cluster",
    "Execution",
    "Recorder",
    "progress_display",
]
__getattr__ = lazily(__name__, _HOMES)
