"""A certified threshold in use: does its risk still hold, looked at as often as one likes?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from krisis.api.given import AnyCalibrator, AnyRun, calibrator_of, certificate_of
from krisis.decisions.certify import Certificate
from krisis.results.base import BenchmarkResult
from krisis.results.run_items import items_of
from krisis.verbs.monitor.evidence import Monitoring, monitor_runs


def monitor(
    certificate: str | Path | Certificate,
    new: AnyRun | Sequence[AnyRun],
    *,
    calibration: AnyCalibrator = None,
    time: str = "",
    mode: str | None = None,
) -> Monitoring:
    """Follow a certified threshold in use: does its risk still hold? Look as often as you like.

    Over all looks together, a threshold whose risk never exceeds its bound is called broken with
    a probability of 5 % at most.

    Arguments:
        certificate: What `krisis.certify` returned, or the file that holds it.
        new: Runs of the same model on patients since then, in order of arrival; all that there
            are, not only the latest.
        calibration: The calibrator that made the score, where there is one.
        time: Metadata column with numbers or ISO dates that orders the patients of all runs;
            without it the patients of one run arrive together.
        mode: The experiment of a PHQ-8 run file.

    Returns:
        A `Monitoring`: ``state`` is holds, broken or cannot tell; each of ``parts`` (one per
        group) has its counts, its alarm with the likely beginning, how many patients are needed
        to tell, and the evidence at every look.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 100, "p": [0, 1] * 100, "c": [0.6, 0.7, 0.8, 0.9] * 50}
    >>> old = {**rows, "id": [f"old {number}" for number in range(200)]}
    >>> new = {**rows, "id": [f"new {number}" for number in range(200)]}
    >>> columns = {"truth": "y", "prediction": "p", "confidence": "c", "id": "id"}
    >>> certificate = krisis.certify(krisis.score(old, **columns), risk=0.05)
    >>> krisis.monitor(certificate, krisis.score(new, **columns)).state
    'holds'
    """
    runs = [new] if isinstance(new, str | Path | BenchmarkResult) else list(new)
    found = certificate_of(certificate)
    assert found is not None
    return monitor_runs(
        found,
        [items_of(run, mode) for run in runs],
        calibrator=calibrator_of(calibration),
        time=time,
    )
