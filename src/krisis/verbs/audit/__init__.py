"""Performance by subgroup, and whether answers are stable."""

from __future__ import annotations

from collections.abc import Sequence

from krisis.api.given import (
    AnyCalibrator,
    AnyCertificate,
    AnyRun,
    calibrator_of,
    certificate_of,
    listed_names,
)
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.sample import DEFAULT_DELTA, DEFAULT_RISK
from krisis.decisions.threshold_in_force import RiskBound
from krisis.results.run_items import items_of
from krisis.verbs.audit.groups import GroupOptions, audit_groups
from krisis.verbs.audit.result import Audit
from krisis.verbs.audit.stability import stability_of_saved


def audit(
    run: AnyRun,
    *,
    by: Sequence[str] = (),
    threshold: float | None = None,
    coverage: float | None = None,
    risk: float = DEFAULT_RISK,
    delta: float = DEFAULT_DELTA,
    certificate: AnyCertificate = None,
    confidence: str = "",
    calibration: AnyCalibrator = None,
    loss: str = "error",
    against: Sequence[AnyRun] = (),
    mode: str | None = None,
    seed: int = 42,
) -> Audit:
    """Check performance by subgroup, and whether answers are stable.

    Arguments:
        run: A run by its path, or in memory.
        by: Metadata columns, numbers divided as in ``age:40:60``; those of the task unless given.
        threshold: Answer from this confidence on; unless given from the certified threshold on,
            and where none can be certified every answer counts.
        coverage: Answer this share of the rows, the most confident, instead.
        risk: Risk at which a threshold is certified.
        delta: Probability that the certificate is wrong.
        certificate: Certificate of `krisis certify`, whose threshold is taken instead.
        confidence: A confidence variant, or ``signals.NAME``; that of the task unless given.
        calibration: Calibrator of `krisis calibrate` that makes the score.
        loss: What the risk is the mean of: error, or cost, by the costs of the task.
        against: Other runs of the same model on the same cases.
        mode: The experiment of a PHQ-8 run file.
        seed: Seed of permutations and resamples.

    Returns:
        An `Audit`; printed, it is what the command shows.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 60, "p": [0, 1, 0, 0] * 30, "sex": ["f", "f", "m", "m"] * 30}
    >>> run = krisis.score(rows, truth="y", prediction="p", groups=["sex"])
    >>> {group.name: group.n_rows for group in krisis.audit(run).groups.groups}
    {'sex_f': 60, 'sex_m': 60}
    """
    score = ScoreOptions(
        confidence=confidence, calibrator=calibrator_of(calibration), loss=loss, seed=seed
    )
    options = GroupOptions(
        by=listed_names(by),
        threshold=threshold,
        coverage=coverage,
        bound=RiskBound(risk=risk, delta=delta),
        certificate=certificate_of(certificate),
        score=score,
    )
    groups = audit_groups(items_of(run, mode), options)
    return Audit(groups, stability_of_saved(run, against, seed=seed))
