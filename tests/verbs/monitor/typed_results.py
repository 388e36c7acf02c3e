"""Results of `krisis monitor` for the approved pages."""

from __future__ import annotations

from tests.fixture_results import sure

import krisis

RESULTS = {
    "monitor.broken": lambda: krisis.monitor(
        krisis.certify(sure(), risk=0.1, by=["sex"], price=0.9), sure("sure", start=300, wrong=3)
    ),
}
