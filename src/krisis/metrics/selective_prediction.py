"""Selective prediction: whether confidence tells which answers to keep (AURC, AUGRC, risk)."""

from __future__ import annotations

from krisis.metrics.risk_coverage import RiskCoverageCurve, optimal_curve, risk_coverage_curve

__all__ = ["RiskCoverageCurve", "optimal_curve", "risk_coverage_curve"]
