"""Synthetic PHQ-8 run files with every signal, for tests and benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

ITEMS = (
    "NoInterest",
    "Depressed",
    "Sleep",
    "Tired",
    "Appetite",
    "Failure",
    "Concentrating",
    "Moving",
)


def participant(number: int, rng: np.random.Generator, *, success: bool = True) -> dict[str, Any]:
    truth, predicted, signals = {}, {}, {}
    truths = np.random.default_rng(number)  # the same in every mode
    level = truths.normal()
    for key in ITEMS:
        truth[key] = int(np.clip(round(1.2 + level + truths.normal(0, 0.7)), 0, 3))
        evidence = int(rng.integers(0, 6))
        noise = rng.normal(0, 1.4 - 0.2 * evidence)
        answered = evidence > 0 or rng.random() < 0.3
        predicted[key] = int(np.clip(round(truth[key] + noise), 0, 3)) if answered else None
        similarity = float(np.clip(0.4 + 0.08 * evidence + rng.normal(0, 0.1), 0, 1))
        signals[key] = {
            "llm_evidence_count": evidence,
            "retrieval_reference_count": evidence,
            "retrieval_similarity_mean": similarity if evidence else None,
            "retrieval_similarity_max": min(1.0, similarity + 0.1) if evidence else None,
            "verbalized_confidence": int(np.clip(evidence + rng.integers(0, 2), 1, 5)),
            "token_msp": float(rng.uniform(0.3, 1.0)),
            "token_pe": float(rng.gamma(2.0, 0.3)),
            "token_energy": float(-rng.gamma(1.0, 0.2)),
            "consistency_modal_confidence": float(rng.integers(1, 6) / 5),
            "consistency_score_std": float(rng.gamma(1.0, 0.3)),
        }
    return {
        "participant_id": number,
        "success": success,
        "ground_truth_items": truth,
        "predicted_items": predicted,
        "item_signals": signals,
    }


def run_file(
    n_participants: int = 41, *, modes: tuple[str, ...] = ("few_shot",), seed: int = 0
) -> dict[str, Any]:
    """Return a run file whose last participant failed."""
    rng = np.random.default_rng(seed)
    return {
        "run_metadata": {"run_id": "synthetic", "git_commit": "0" * 40},
        "experiments": [
            {
                "provenance": {"mode": mode},
                "results": {
                    "mode": mode,
                    "results": [
                        participant(300 + i, rng, success=i < n_participants - 1)
                        for i in range(n_participants)
                    ],
                },
            }
            for mode in modes
        ],
    }
