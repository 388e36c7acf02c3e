"""The tables of the kidney suite's page: who defers what, and how labels move with price and prior.

Run `python -m benchmarks.ckd_deferral [NUMBER OF PATIENTS]`; it takes some minutes.
"""

from __future__ import annotations

import sys

import numpy as np
from tests.data.ckd import prompt_reader

from krisis import Benchmark, SuiteConfig
from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.backends.scripted import ScriptedBackend
from krisis.data.ckd.deferral import DeferralRule
from krisis.data.ckd.suite import CKDSuite

READERS = ("always-answer", "guideline", "prompt-only reader", "logistic", "bayes-optimal")
PRICES = (0.05, 0.10, 0.20, 0.30, 0.40)
Flags = np.ndarray


def backend(name: str) -> BaseBackend:
    if name == "prompt-only reader":
        return ScriptedBackend(prompt_reader.reply)
    return backend_from_name(name)


def abstained(suite: CKDSuite, name: str) -> Flags:
    rows = Benchmark(suite, backend(name), [], batch_size=1).run().evaluation_results
    return np.array([row.abstained for row in rows])


def agreement(should: Flags, did: Flags) -> dict[str, float]:
    """Return alignment, sensitivity, balanced alignment and Matthews' correlation of deferral."""
    sensitivity = float(did[should].mean())
    specificity = float((~did[~should]).mean())
    constant = did.all() or not did.any()
    return {
        "alignment": float((should == did).mean()),
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced": (sensitivity + specificity) / 2,
        "mcc": float("nan") if constant else float(np.corrcoef(should, did)[0, 1]),
    }


def figure(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)


def alignment_rows(task: str, n_patients: int) -> None:
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=n_patients))
    truth = [record.metadata for record in suite.records()]
    should = np.array([metadata["should_abstain"] for metadata in truth])
    kinds = np.array([str(metadata["deferral_kind"]) for metadata in truth])
    apart = np.array([metadata["label_depends_on_prior"] for metadata in truth])
    for name in READERS:
        did = abstained(suite, name)
        both = agreement(should, did)
        cells = [both["alignment"], both["specificity"], both["balanced"], both["mcc"]]
        for kind in ("uncertain", "rule"):
            chosen = ~should | (kinds == kind)
            found = agreement(should[chosen], did[chosen])
            cells += [found["sensitivity"], found["balanced"], found["mcc"]]
        cells.append(agreement(should[~apart], did[~apart])["balanced"])
        print(f"| {task} | {name} | " + " | ".join(map(figure, cells)) + " |", flush=True)


def label_row(task: str, n_patients: int) -> None:
    suite = CKDSuite(SuiteConfig(task=task, n_synthetic=n_patients))
    found = [suite.rules["bayes-optimal"].assessor(r.features) for r in suite.records()]
    stated = np.array(
        [bool(DeferralRule().reasons(f.visible_reasons, f.p_misclass)) for f in found]
    )
    shares = [
        np.mean([bool(f.visible_reasons) or f.p_misclass >= price for f in found])
        for price in PRICES
    ]
    at = [np.array([bool(f.visible_reasons) or f.shifted[k] >= 0.2 for f in found]) for k in (0, 1)]
    kinds = [r.metadata["deferral_kind"] for r in suite.records()]
    cells = [*shares, at[0].mean(), at[1].mean(), (at[0] != at[1]).mean()]
    by_kind = [kinds.count(kind) / len(kinds) for kind in ("uncertain", "rule")]
    assert abs(stated.mean() - sum(by_kind)) < 1e-9
    print(f"| {task} | " + " | ".join(map(figure, [*by_kind, *cells])) + " |", flush=True)


def main() -> None:
    n_patients = int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 3000
    for task in CKDSuite.tasks:
        label_row(task, n_patients)
    for task in CKDSuite.tasks:
        alignment_rows(task, n_patients)


if __name__ == "__main__":
    main()
