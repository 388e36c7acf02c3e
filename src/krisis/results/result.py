"""The import path of `BenchmarkResult` that the documentation has always named."""

from __future__ import annotations

from krisis.results.base import SCHEMA_VERSION, BenchmarkResult

__all__ = ["SCHEMA_VERSION", "BenchmarkResult"]
