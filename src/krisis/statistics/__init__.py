"""Intervals, resampling and tests in plain NumPy and SciPy."""

from krisis.lazy_names import lazily

_HOMES = {
    "cluster_bootstrap": "krisis.statistics.bootstrap",
    "consistency_of": "krisis.statistics.repeatability",
    "share_interval": "krisis.statistics.shares",
}
__all__ = [
    "cluster_bootstrap",
    "consistency_of",
    "share_interval",
]
__getattr__ = lazily(__name__, _HOMES)
