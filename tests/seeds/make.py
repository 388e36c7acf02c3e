"""Make the vectors: random inputs of every kind, with what the reference says of them.

``python -m tests.seeds.make`` writes them anew; the same reference gives the same bytes.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from tests.seeds import reference as ref

FOLDER = Path(__file__).parent / "vectors"
ITEMS = (
    *("NoInterest", "Depressed", "Sleep", "Tired"),
    *("Appetite", "Failure", "Concentrating", "Moving"),
)
LABELS: dict[str, tuple[Any, ...]] = {
    "detection": (0, 1),
    "staging": (1, 2, 3, 4, 5),
    "progression": ("stable", "worsening", "improving"),
}
RUN_PATH = "data/outputs/your_run.json"
TRAIN_PATH = "data/outputs/train_run.json"


def rows(rng: random.Random, n: int, task: str) -> list[dict[str, Any]]:
    """Return rows as a run would have them: right, wrong, abstained, without an answer."""
    labels = LABELS[task]
    found = []
    for _ in range(n):
        truth = rng.choice(labels)
        prediction = truth if rng.random() < 0.6 else rng.choice(labels)
        kind = rng.random()
        abstained = kind < 0.2
        if 0.2 <= kind < 0.28 or (abstained and rng.random() < 0.7):
            prediction = None
        elif kind > 0.9:  # the same label as text; seeds want it to be the same
            prediction = f" {str(prediction).upper()} "
        metadata: dict[str, Any] = {}
        if rng.random() < 0.85:
            metadata["ckd_stage"] = rng.randint(1, 5)
        if rng.random() < 0.8:
            metadata["should_abstain"] = rng.random() < 0.4
        confidence = None if rng.random() < 0.15 else rng.choice([rng.random(), 0.2, 0.6, 0.8, 1.0])
        found.append(
            {
                "prediction": prediction,
                "ground_truth": truth,
                "abstained": abstained,
                "confidence": confidence,
                "metadata": metadata,
            }
        )
    return found


def signals(rng: random.Random) -> dict[str, Any]:
    """Return all signals of one item; similarities can be outside [0, 1]."""
    count = rng.randint(0, 5)
    similarity = round(rng.uniform(-0.2, 1.2), 3) if count else None
    return {
        "llm_evidence_count": count,
        "retrieval_reference_count": count,
        "retrieval_similarity_mean": similarity,
        "retrieval_similarity_max": None if similarity is None else round(similarity + 0.1, 3),
        "verbalized_confidence": rng.choice([None, 1, 2, 3, 4, 5]),
        "token_msp": round(rng.uniform(0.3, 1), 3),
        "token_pe": round(rng.uniform(0, 2), 3),
        "token_energy": round(-rng.uniform(0, 1), 3),
        "consistency_modal_confidence": rng.randint(1, 5) / 5,
        "consistency_score_std": round(rng.uniform(0, 1), 3),
    }


def items(rng: random.Random, n_participants: int) -> list[dict[str, Any]]:
    """Return items with abstentions and ties."""
    levels = rng.choice([2, 4, 1000])
    return [
        {
            "participant": f"p{number:02d}",
            "item": item,
            "pred": None if rng.random() < 0.2 else rng.randint(0, 3),
            "gt": rng.randint(0, 3),
            "confidence": rng.randint(0, levels) / levels,
        }
        for number in range(n_participants)
        for item in ITEMS
    ]


def run_file(rng: random.Random, n_participants: int) -> dict[str, Any]:
    """Return a run file of two modes; one participant failed in both."""
    truths = [{item: rng.randint(0, 3) for item in ITEMS} for _ in range(n_participants)]

    def person(number: int) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {item: signals(rng) for item in ITEMS}
        truth, guesses = truths[number], {}
        for item, one in found.items():
            sure = one["llm_evidence_count"] + 1
            close = truth[item] if rng.random() < sure / 8 else rng.randint(0, 3)
            guesses[item] = None if rng.random() < 0.25 else close
        return {
            "participant_id": 300 + number,
            "success": number != 2,
            "ground_truth_items": truth,
            "predicted_items": guesses,
            "item_signals": found,
        }

    return {
        "run_metadata": {"run_id": "vector", "git_commit": "0" * 40},
        "experiments": [
            {
                "provenance": {"mode": mode},
                "results": {"mode": mode, "results": [person(i) for i in range(n_participants)]},
            }
            for mode in ("zero_shot", "few_shot")
        ],
    }


def uci_file(rng: random.Random, n_patients: int) -> str:
    """Return patients in the columns of the UCI file, with gaps, of every stage and both labels."""
    measured = {
        "bp": lambda: rng.randrange(50, 110, 5),
        "sg": lambda: rng.choice([1.005, 1.01, 1.015, 1.02, 1.025]),
        "bgr": lambda: rng.randint(70, 400),
        "bu": lambda: rng.randint(15, 200),
        "sod": lambda: rng.randint(125, 150),
        "pot": lambda: round(rng.uniform(3, 6.5), 1),
        "hemo": lambda: round(rng.uniform(6, 17), 1),
        "pcv": lambda: rng.randint(20, 54),
        "wbcc": lambda: rng.randrange(4000, 15000, 100),
        "rbcc": lambda: round(rng.uniform(2.5, 6.5), 1),
    }
    columns = (
        *("id", "age", "bp", "sg", "al", "su", "rbc", "pc", "pcc", "ba", "bgr", "bu", "sc", "sod"),
        *("pot", "hemo", "pcv", "wbcc", "rbcc", "htn", "dm", "cad", "appet", "pe", "ane", "class"),
    )
    lines = [",".join(columns)]
    for number in range(n_patients):
        cells: dict[str, Any] = {"id": number, "age": rng.randint(12, 88)}
        cells["sc"] = round(math.exp(rng.uniform(math.log(0.5), math.log(9))), 1)
        cells |= {name: draw() for name, draw in measured.items()}
        cells |= {name: rng.choice(list(codes)) for name, codes in ref.CODES.items()}
        for name in (*measured, *ref.CODES, "age", "sc"):
            if rng.random() < 0.15:
                cells[name] = "?" if rng.random() < 0.5 else ""
        cells["class"] = rng.choice(["ckd", "notckd"])
        lines.append(",".join(str(cells[name]) for name in columns))
    return "\n".join(lines) + "\n"


def metric_vectors() -> list[dict[str, Any]]:
    cases = []
    for number, (task, n) in enumerate(
        [(task, n) for task in LABELS for n in (1, 5, 30)] + [("detection", 80)]
    ):
        given = rows(random.Random(number), n, task)
        cases.append({"rows": given, "scores": ref.metric_scores(given)})
    nothing = [{**row, "abstained": True} for row in rows(random.Random(99), 6, "detection")]
    cases.append({"rows": nothing, "scores": ref.metric_scores(nothing)})
    return cases


def kidney_vectors() -> list[dict[str, Any]]:
    rng = random.Random(3)
    values = [(1.0, 50), (0.7, 20), (0.9, 20), (0.6, 30), (5.0, 60), (1.5, 65), (1.2, 55)]
    values += [(round(math.exp(rng.uniform(-1, 2.5)), 2), rng.randint(18, 95)) for _ in range(40)]
    # Just above and just below every limit of the stages, in both sexes.
    for female in (False, True):
        for limit in ref.STAGE_LIMITS:
            above = [c for c in range(40, 900) if ref.egfr(c / 100, 60, female=female) >= limit]
            values += [(c / 100, 60) for c in (above[-1], above[-1] + 1)]
    found = []
    for creatinine, age in values:
        for female in (False, True):
            rate = ref.egfr(creatinine, age, female=female)
            entry = {"creatinine": creatinine, "age": age, "female": female}
            found.append({**entry, "egfr": rate, "stage": ref.stage(rate)})
    return found


def curve_vectors() -> list[dict[str, Any]]:
    worked = [(2, 2, 2), (3, 1, 2), (1, 1, 1), (None, 0, 0)]
    by_hand = [
        {"participant": f"p{i // 2}", "item": f"i{i % 2}", "pred": p, "gt": g, "confidence": c}
        for i, (p, g, c) in enumerate(worked)
    ]
    cases = [("abs", by_hand)]
    cases += [
        (("abs", "abs_norm")[number % 2], items(random.Random(number), 2 + number % 4))
        for number in range(8)
    ]
    return [
        {"loss": loss, "items": given, "figures": ref.curve_figures(given, loss)}
        for loss, given in cases
    ]


def confidence_vectors() -> list[dict[str, Any]]:
    rng = random.Random(11)
    found = []
    for _ in range(12):
        given = signals(rng)
        values = {variant: ref.confidence(variant, given) for variant in ref.VARIANTS}
        found.append({"signals": given, "confidence": values})
    return found


def calibrator_vectors() -> dict[str, Any]:
    rng = random.Random(5)
    features = [[round(rng.random(), 3), round(rng.uniform(-2, 2), 3)] for _ in range(60)]
    target = [int(rng.random() < ref.sigmoid(3 * a - 1.5 + b)) for a, b in features]
    first = [row[0] for row in features]
    asked = [[round(rng.random(), 3), round(rng.uniform(-3, 3), 3)] for _ in range(60)]
    temperature = ref.fit_temperature(first, target)
    logistic, linear = (fit(features, target) for fit in (ref.fit_logistic, ref.fit_linear))
    isotonic = ref.fit_isotonic(first, target)
    return {
        "features": features,
        "target": target,
        "asked": asked,
        "temperature": temperature,
        "temperature_scaling": [ref.sigmoid(ref.logit(a) / temperature) for a, _ in asked],
        "logistic": [logistic(row) for row in asked],
        "linear": [linear(row) for row in asked],
        "isotonic": [isotonic(row[0]) for row in asked],
        "ece": ref.ece(first, target),
        "binary_nll": ref.binary_nll(first, target),
    }


def artifact_vectors(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "single": ref.artifact(run, RUN_PATH, ["few_shot"], "llm", "abs"),
        "paired": ref.artifact(run, RUN_PATH, ["zero_shot", "few_shot"], "llm", "abs"),
        "published_intervals": ref.artifact(
            run, RUN_PATH, ["few_shot"], "llm", "abs", n_resamples=400
        ),
        "published_deltas": ref.artifact(
            run, RUN_PATH, ["zero_shot", "few_shot"], "token_pe", "abs_norm", n_resamples=400
        ),
    }


def contents() -> dict[str, str]:
    """Return every vector file as text."""
    run = run_file(random.Random(13), 6)
    values: dict[str, Any] = {
        "metrics.json": metric_vectors(),
        "kidney.json": kidney_vectors(),
        "curves.json": curve_vectors(),
        "confidence.json": confidence_vectors(),
        "calibrators.json": calibrator_vectors(),
        "run.json": run,
        "train_run.json": run_file(random.Random(8), 12),
        "artifacts.json": artifact_vectors(run),
    }
    texts = {
        name: json.dumps(_rounded(value), separators=(",", ":")) + "\n"
        for name, value in values.items()
    }
    return {**texts, "uci.csv": uci_file(random.Random(1), 90)}


def _rounded(value: Any) -> Any:
    """Return a value as JSON has it: undefined is null, and the last digits are left out."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.13g}")
    return value


if __name__ == "__main__":
    for file_name, text in contents().items():
        (FOLDER / file_name).write_text(text, encoding="utf-8")
