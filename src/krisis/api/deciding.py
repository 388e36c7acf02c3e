"""`krisis.certify` and `krisis.verify`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from krisis.api.given import (
    AnyCalibrator,
    AnyRun,
    calibrator_of,
    certificate_of,
    listed_names,
    run_file_of,
)
from krisis.cost_file import AnyCosts
from krisis.decisions.answers import with_costs
from krisis.decisions.certify import Certificate, CertifyOptions, certify_run
from krisis.decisions.run_sample import MOST_NOT_EVALUATED, ScoreOptions
from krisis.decisions.sample import METHODS
from krisis.decisions.verify import Verification, verify_run
from krisis.errors import InvalidValue
from krisis.results.run_items import items_of
from krisis.runs.ledger import CERTIFICATE, certificate_sentence, note_decision


def certify(
    run: AnyRun,
    *,
    risk: float,
    delta: float | None = None,
    method: str = METHODS[0],
    by: Sequence[str] = (),
    confidence: str = "",
    calibration: AnyCalibrator = None,
    loss: str = "error",
    costs: AnyCosts | None = None,
    price: float | None = None,
    rows_per_patient: int | None = None,
    max_not_evaluated: float = MOST_NOT_EVALUATED,
    mode: str | None = None,
) -> Certificate:
    """Find the cheapest confidence threshold whose risk among the answers is bounded.

    Every threshold that `fixed-sequence` accepts is certified. The one at which answering and
    deferring cost the least, by the costs of the task, is recommended; the lowest stands beside it.

    Arguments:
        run: A run by its path, or in memory.
        risk: Largest risk among the answered cases, between 0 and 1.
        delta: Chance that the certificate is wrong; 0.1 unless given.
        method: fixed-sequence, sgr or crc.
        by: Columns that get one threshold per group.
        confidence: A confidence variant, or ``signals.NAME``; that of the task unless given.
        calibration: Calibrator of `krisis calibrate` that makes the score.
        loss: What the risk is the mean of: error, so that it is the share of wrong answers; or
            cost, what an answer costs, the costliest error being 1.
        costs: Costs in place of those of the task, or their YAML file, for the loss cost.
        price: Cost of one deferral in place of that of the task.
        rows_per_patient: Most rows that a patient can have.
        max_not_evaluated: Largest share of cases without a reply on which a run is judged.
        mode: The experiment of a PHQ-8 run file.

    Returns:
        A `Certificate`: ``threshold`` is None where none can be certified, and each of ``parts``
        says why. ``laxest`` of a part is the lowest certified threshold.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 100, "p": [0, 1] * 100, "c": [0.6, 0.7, 0.8, 0.9] * 50}
    >>> run = krisis.score(rows, truth="y", prediction="p", confidence="c")
    >>> krisis.certify(run, risk=0.05).threshold
    0.6
    """
    if costs is not None and loss != "cost":
        raise InvalidValue(
            f"--costs states what errors cost, and the loss {loss!r} counts every error alike; add "
            "--loss cost, or omit --costs"
        )
    score = ScoreOptions(
        confidence=confidence,
        calibrator=calibrator_of(calibration),
        loss=loss,
        rows_per_patient=rows_per_patient,
        max_not_evaluated=max_not_evaluated,
    )
    options = CertifyOptions(
        risk=risk,
        delta=delta,
        method=method,  # type: ignore[arg-type] # checked there
        by=listed_names(by),
        score=score,
    )
    items = with_costs(items_of(run, mode), costs, price)
    return _noted(certify_run(items, options), run)


def _noted(certificate: Certificate, run: AnyRun) -> Certificate:
    """Note the request in the ledger of the run; the certificate says how many there were."""
    path = run_file_of(run)
    if path is None:
        return certificate
    question = {
        "risk": certificate.risk,
        "delta": certificate.delta,
        "method": certificate.method,
        "loss": certificate.loss,
        "confidence": certificate.confidence,
        "calibrator": certificate.calibrator_hash,
        "by": certificate.by,
        "costs": certificate.costs,
        "price": certificate.price,
    }
    found = [f"{part.group or 'all'}: {part.threshold}" for part in certificate.parts]
    noted = note_decision(path, kind=CERTIFICATE, question=question, answer="; ".join(found))
    sentence = certificate_sentence(noted)
    if not sentence:
        return certificate
    return certificate.model_copy(update={"assumptions": [*certificate.assumptions, sentence]})


def verify(
    certificate: str | Path | Certificate,
    run: AnyRun,
    *,
    confidence: str = "",
    calibration: AnyCalibrator = None,
    time: str = "",
    mode: str | None = None,
) -> Verification:
    """Judge a certificate on new patients: did its risk hold?

    This is for one look. To look again as patients arrive, use `krisis.monitor`: verified every
    month, a certificate that holds is called broken sooner or later.

    Arguments:
        certificate: What `krisis.certify` returned, or the file that holds it.
        run: A run of the same model on other patients.
        confidence: The confidence variant, where it is not that of the certificate.
        calibration: The calibrator that made the score, where there is one.
        time: Metadata column that orders the patients.
        mode: The experiment of a PHQ-8 run file.

    Returns:
        A `Verification`: ``verdict`` is held, broken or cannot tell.

    >>> import krisis
    >>> rows = {"y": [0, 1] * 100, "p": [0, 1] * 100, "c": [0.6, 0.7, 0.8, 0.9] * 50}
    >>> old = {**rows, "id": [f"old {number}" for number in range(200)]}
    >>> new = {**rows, "id": [f"new {number}" for number in range(200)]}
    >>> columns = {"truth": "y", "prediction": "p", "confidence": "c", "id": "id"}
    >>> certificate = krisis.certify(krisis.score(old, **columns), risk=0.05)
    >>> krisis.verify(certificate, krisis.score(new, **columns)).verdict
    'held'
    """
    found = certificate_of(certificate)
    assert found is not None
    return verify_run(
        found,
        items_of(run, mode),
        confidence=confidence,
        calibrator=calibrator_of(calibration),
        time=time,
    )
