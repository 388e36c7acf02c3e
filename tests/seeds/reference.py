"""What the seeds define, computed without krisis and without NumPy.

Rows, runs and records are plain dictionaries. Nothing here is fast or general: each function is the
sentence of a seed in plain Python, so that krisis can be compared with something it did not write.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
NAN = math.nan

# Labels and metrics (seeds 000 and 002) ----------------------------------------------------------


def as_whole(label: object) -> int | None:
    """Return the whole number that a label stands for, if it does."""
    if isinstance(label, float):
        return int(label) if label.is_integer() else None
    if isinstance(label, int):
        return int(label)
    try:
        return int(str(label).strip())
    except ValueError:
        return None


def plain(label: object) -> int | str:
    """Return a label as its whole number, or as text without case and surrounding space."""
    number = as_whole(label)
    return str(label).strip().lower() if number is None else number


def same(prediction: object, truth: object) -> bool:
    """Tell whether a prediction is the label; nothing is never right."""
    if prediction is None:
        return False
    return plain(prediction) == plain(truth)


def is_right(row: Row) -> bool:
    return not row["abstained"] and same(row["prediction"], row["ground_truth"])


def mean(values: Iterable[float]) -> float:
    """Return the mean, NaN of nothing."""
    found = list(values)
    return sum(found) / len(found) if found else NAN


def stage_of(row: Row) -> str:
    stage = row["metadata"].get("ckd_stage")
    return "unknown_stage" if stage is None else f"stage_{plain(stage)}"


def by_stage(rows: Sequence[Row], figure: Callable[[Sequence[Row]], float]) -> dict[str, float]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[stage_of(row)].append(row)
    return {name: figure(group) for name, group in groups.items()}


def accuracy(rows: Sequence[Row]) -> float:
    return mean(is_right(row) for row in rows)


def answered(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not row["abstained"]]


def selective_accuracy(rows: Sequence[Row]) -> float:
    return accuracy(answered(rows))


def abstention_rate(rows: Sequence[Row]) -> float:
    return mean(bool(row["abstained"]) for row in rows)


def answer_rate(rows: Sequence[Row]) -> float:
    return mean(not row["abstained"] for row in rows)


def balanced_accuracy(rows: Sequence[Row]) -> tuple[float, dict[str, float]]:
    """Return the mean recall over the classes of the truth, and every recall."""
    classes: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        classes[str(plain(row["ground_truth"]))].append(row)
    recalls = {name: accuracy(of_class) for name, of_class in classes.items()}
    return (mean(recalls.values()) if len(recalls) > 1 else NAN), recalls


def labelled(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["metadata"].get("should_abstain") is not None]


def alignment(rows: Sequence[Row]) -> float:
    return mean(row["abstained"] == row["metadata"]["should_abstain"] for row in labelled(rows))


def confusion(rows: Sequence[Row]) -> dict[str, int]:
    names = {
        (True, True): "defer_when_needed",
        (False, False): "answer_when_safe",
        (True, False): "abstain_when_should_answer",
        (False, True): "answer_when_should_defer",
    }
    counts = Counter(
        names[bool(row["abstained"]), row["metadata"]["should_abstain"]] for row in labelled(rows)
    )
    return {name: counts[name] for name in names.values()}


def with_confidence(rows: Sequence[Row]) -> list[Row]:
    """Return the answered rows whose confidence can be judged."""
    return [
        row
        for row in answered(rows)
        if row["prediction"] is not None and row["confidence"] is not None
    ]


def calibration_bins(pairs: Sequence[tuple[float, float]], n_bins: int) -> list[dict[str, Any]]:
    """Return equal-width bins of (confidence, hit) over [0, 1]; 1.0 belongs to the last."""
    bins = []
    for number in range(n_bins):
        inside = [p for p in pairs if min(int(p[0] * n_bins), n_bins - 1) == number]
        confidence, hits = mean(p[0] for p in inside), mean(p[1] for p in inside)
        bins.append(
            {
                "bin": number,
                "low": number / n_bins,
                "high": (number + 1) / n_bins,
                "count": len(inside),
                "accuracy": hits,
                "mean_confidence": confidence,
                "gap": abs(hits - confidence),
            }
        )
    return bins


def calibration_error(bins: Sequence[Mapping[str, Any]]) -> float:
    n = sum(one["count"] for one in bins)
    if not n:
        return NAN
    return sum(one["count"] * one["gap"] for one in bins if one["count"]) / n


def brier(rows: Sequence[Row]) -> float:
    """Return the mean squared error of P(1); NaN as soon as a row is not 0 or 1."""
    labels = [row["ground_truth"] for row in rows]
    labels += [row["prediction"] for row in rows if row["prediction"] is not None]
    usable = with_confidence(rows)
    if not usable or any(as_whole(label) not in (0, 1) for label in labels):
        return NAN
    errors = []
    for row in usable:
        said_one = as_whole(row["prediction"]) == 1
        p = row["confidence"] if said_one else 1 - row["confidence"]
        errors.append((p - (as_whole(row["ground_truth"]) or 0)) ** 2)
    return mean(errors)


def metric_scores(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Return the eight metrics of the default stack by their names."""
    balanced, recalls = balanced_accuracy(rows)
    pairs = [(row["confidence"], float(is_right(row))) for row in with_confidence(rows)]
    bins = calibration_bins(pairs, 15)
    n, n_right = len(rows), sum(map(is_right, rows))
    n_answered = len(answered(rows))
    scores: dict[str, dict[str, Any]] = {
        "Accuracy": {
            "value": accuracy(rows),
            "n_evaluated": n,
            "breakdown": by_stage(rows, accuracy),
            "details": {"n_correct": n_right, "n_incorrect": n - n_right},
        },
        "Balanced Accuracy": {
            "value": balanced,
            "n_evaluated": n if len(recalls) > 1 else 0,
            "breakdown": {f"class_{name}": one for name, one in recalls.items()}
            if len(recalls) > 1
            else {},
            "details": {"per_class_recall": recalls},
        },
        "Selective Accuracy (answered only)": {
            "value": selective_accuracy(rows),
            "n_evaluated": n_answered,
            "breakdown": {
                name: value
                for name, value in by_stage(rows, selective_accuracy).items()
                if not math.isnan(value)
            },
            "details": {"n_correct": n_right, "n_incorrect": n_answered - n_right},
        },
        "Abstention Rate": {
            "value": abstention_rate(rows),
            "n_evaluated": n,
            "breakdown": by_stage(rows, abstention_rate),
            "details": {"n_answered": n_answered},
        },
        "Answer Rate (Coverage)": {
            "value": answer_rate(rows),
            "n_evaluated": n,
            "breakdown": by_stage(rows, answer_rate),
            "details": {"n_answered": n_answered},
        },
        "Deferral Alignment": {
            "value": alignment(rows),
            "n_evaluated": len(labelled(rows)),
            "breakdown": by_stage(labelled(rows), alignment),
            "details": {"n_labeled": len(labelled(rows)), "confusion": confusion(rows)},
        },
        "Expected Calibration Error": {
            "value": calibration_error(bins),
            "n_evaluated": len(pairs),
            "breakdown": {f"bin_{b['bin']}_gap": b["gap"] for b in bins if b["count"]},
            "details": {"bins": bins} if pairs else {},
        },
        "Brier Score": {
            "value": brier(rows),
            "n_evaluated": 0 if math.isnan(brier(rows)) else len(pairs),
            "breakdown": {},
            "details": {},
        },
    }
    for score in scores.values():
        score["n_abstained"] = n - n_answered
    return scores


# Batches (seed 003) ------------------------------------------------------------------------------


def batch_sizes(n_records: int, batch_size: int) -> list[int]:
    """Return the sizes of the planned batches."""
    return [min(batch_size, n_records - start) for start in range(0, n_records, batch_size)]


def calls_when_broken(n: int, largest_answered: int) -> list[tuple[str, int]]:
    """Return the calls about a batch whose replies are malformed above a size.

    A malformed batch is split in halves; one of a single record falls back to one record asked
    alone.
    """
    calls = [("batch" if n > 1 else "single", n)]
    if n == 1 or n <= largest_answered:
        return calls
    half = (n + 1) // 2
    return (
        calls
        + calls_when_broken(half, largest_answered)
        + calls_when_broken(n - half, largest_answered)
    )


# The kidney suite (seeds 000 and 001) ------------------------------------------------------------

# Columns of the UCI file that hold codes, with the number of each word; the others are measured.
YES, PRESENT, ABNORMAL = (
    {"no": 0, "yes": 1},
    {"notpresent": 0, "present": 1},
    {
        "normal": 0,
        "abnormal": 1,
    },
)
GRADES = {str(grade): grade for grade in range(6)}
CODES = {
    **dict.fromkeys(("htn", "dm", "cad", "pe", "ane"), YES),
    **dict.fromkeys(("pcc", "ba"), PRESENT),
    **dict.fromkeys(("rbc", "pc"), ABNORMAL),
    **dict.fromkeys(("al", "su"), GRADES),
    "appet": {"good": 0, "poor": 1},
}
MEASURED = ("age", "bp", "sg", "bgr", "bu", "sc", "sod", "pot", "hemo", "pcv", "wbcc", "rbcc")
STAGE_LIMITS = (90, 60, 30, 15)
MARGIN = 3.0
PRESENT_LABEL, ABSENT_LABEL = 0, 1


def egfr(creatinine: float, age: float, *, female: bool) -> float:
    """Return CKD-EPI 2021 (creatinine in mg/dL, without race)."""
    knee, exponent = (0.7, -0.241) if female else (0.9, -0.302)
    ratio = creatinine / knee
    rate = 142 * min(ratio, 1) ** exponent * max(ratio, 1) ** -1.2 * 0.9938**age
    return rate * 1.012 if female else rate


def stage(rate: float) -> int:
    """Return the stage from 1 (at least 90) to 5 (below 15)."""
    return 1 + sum(rate < limit for limit in STAGE_LIMITS)


def estimate(creatinine: float | None, age: float | None, sex: str) -> float | None:
    """Return the estimate of an adult; both sexes averaged where sex is unknown."""
    if creatinine is None or age is None or age < 18:
        return None
    sexes = {"female": [True], "male": [False], "unknown": [True, False]}[sex]
    return mean(egfr(creatinine, age, female=female) for female in sexes)


def flags(rate: float | None, has_ckd: bool | None) -> dict[str, bool]:
    """Return the marks of one visit: close to a stage, and a diagnosis that contradicts it."""
    near = rate is not None and any(abs(rate - limit) <= MARGIN for limit in STAGE_LIMITS)
    conflict = rate is not None and has_ckd is not None and (stage(rate) >= 3) != has_ckd
    return {
        "near_threshold": near,
        "label_conflicts_with_stage": conflict,
        "ambiguous_trajectory": False,
    }


def is_close_call(rate: float | None) -> bool:
    """Tell whether an estimate is so near a limit or margin that its rounding decides."""
    if rate is None:
        return False
    edges = [limit + d for limit in STAGE_LIMITS for d in (-MARGIN, 0, MARGIN)]
    return min(abs(rate - edge) for edge in edges) < 0.02


def read_uci(text: str) -> dict[str, dict[str, Any]]:
    """Read a file in the columns of the UCI file, by the id of the patient."""
    patients = {}
    for line in csv.DictReader(text.splitlines()):
        found: dict[str, Any] = {}
        for name in (*MEASURED, *CODES):
            cell = line[name].strip()
            if cell in ("", "?"):
                found[name] = None
            else:
                found[name] = CODES[name][cell] if name in CODES else float(cell)
        found["has_ckd"] = line["class"].strip() == "ckd"
        patients[line["id"]] = found
    return patients


def fillings(training: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what fills a gap: the median of the training patients, of a code the commonest."""
    found = {}
    for name in (*MEASURED, *CODES):
        known = [patient[name] for patient in training if patient[name] is not None]
        if name in CODES:
            counts = Counter(known)
            found[name] = min(counts, key=lambda code: (-counts[code], code))
        else:
            found[name] = statistics.median(known)
    return found


def kidney_record(
    patient: Mapping[str, Any], filling: Mapping[str, float], sex: str, task: str
) -> dict[str, Any]:
    """Return label and metadata of a patient of the file in the suite of the first version."""
    shown = {k: filling[k] if patient[k] is None else patient[k] for k in (*MEASURED, *CODES)}
    rate = estimate(shown["sc"], shown["age"], sex)
    marks = flags(rate, patient["has_ckd"])
    stage_found = None if rate is None else stage(rate)
    label = PRESENT_LABEL if patient["has_ckd"] else ABSENT_LABEL
    return {
        "features": shown,
        "label": stage_found if task == "staging" else label,
        "egfr": rate,
        "ckd_stage": stage_found,
        "should_abstain": any(marks.values()),
        **marks,
    }


def category(rate: float) -> int:
    """Return the KDIGO category, 0 for G5 up to 5 for G1."""
    return sum(rate >= limit for limit in (15, 30, 45, 60, 90))


def course_label(first: float, last: float, days: float, *, drug_window: bool) -> str:
    """Return the course by KDIGO 2024, the rules in their order."""
    fall = 1 - last / first
    if abs(fall) < 0.20:
        return "stable"
    if drug_window and 0 < fall <= 0.30:
        return "stable"
    dropped = category(last) < category(first)
    rapid = days >= 365.25 and (first - last) / (days / 365.25) > 5
    if fall > 0 and ((dropped and fall >= 0.25) or fall >= 0.40 or rapid or last < 15 <= first):
        return "worsening"
    if fall <= -0.25 and category(last) > category(first):
        return "improving"
    return "stable"


def is_ambiguous(estimates: Sequence[float]) -> bool:
    """Tell whether a shown course is near the limit of 20 %, or cannot be seen at all."""
    if len(estimates) < 2:
        return True
    return 0.15 <= round(abs(estimates[-1] / estimates[0] - 1), 9) < 0.25


# Confidence variants (seed 004) ------------------------------------------------------------------


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def logit(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


def confidence(variant: str, signals: Mapping[str, Any], temperature: float = 1.0) -> float:
    """Return the confidence of one item by a variant."""
    if variant.startswith("secondary:"):
        pair, _, how = variant.removeprefix("secondary:").rpartition(":")
        one, two = (confidence(name, signals) for name in pair.split("+"))
        return (one + two) / 2 if how == "average" else one * two
    count = signals["llm_evidence_count"]
    evidence = min(count, 3) / 3
    similarity = signals["retrieval_similarity_mean"] or 0.0
    spoken = signals["verbalized_confidence"]
    verbalized = 0.5 if spoken is None else (spoken - 1) / 4
    modal = signals["consistency_modal_confidence"]
    return {
        "llm": lambda: count,
        "total_evidence": lambda: count,
        "retrieval_similarity_mean": lambda: similarity,
        "retrieval_similarity_max": lambda: signals["retrieval_similarity_max"] or 0.0,
        "hybrid_evidence_similarity": lambda: 0.5 * evidence + 0.5 * similarity,
        "verbalized": lambda: verbalized,
        "verbalized_calibrated": lambda: sigmoid(logit(verbalized) / temperature),
        "hybrid_verbalized": lambda: 0.4 * verbalized + 0.3 * evidence + 0.3 * similarity,
        "token_msp": lambda: signals["token_msp"],
        "token_pe": lambda: 1 / (1 + signals["token_pe"]),
        "token_energy": lambda: math.exp(signals["token_energy"]),
        "consistency": lambda: modal,
        "consistency_inverse_std": lambda: 1 / (1 + signals["consistency_score_std"]),
        "hybrid_consistency": lambda: 0.4 * modal + 0.3 * evidence + 0.3 * similarity,
    }[variant]()


VARIANTS = (
    *("llm", "total_evidence", "retrieval_similarity_mean", "retrieval_similarity_max"),
    *("hybrid_evidence_similarity", "verbalized", "hybrid_verbalized", "token_msp", "token_pe"),
    *("token_energy", "consistency", "consistency_inverse_std", "hybrid_consistency"),
    "secondary:token_msp+retrieval_similarity_mean:average",
    "secondary:token_msp+retrieval_similarity_mean:product",
)


# Risk and coverage (seed 004) --------------------------------------------------------------------

Item = Mapping[str, Any]  # participant, item, pred, gt, confidence


def item_loss(item: Item, loss: str) -> float:
    distance = abs(item["pred"] - item["gt"])
    return distance / 3 if loss == "abs_norm" else float(distance)


def predicted(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item["pred"] is not None]


def cmax(items: Sequence[Item]) -> float:
    return mean(item["pred"] is not None for item in items)


def curve(ranked: Sequence[tuple[float, float]], n_items: int) -> list[dict[str, float]]:
    """Return the working points of (confidence, loss): one per distinct confidence."""
    points = []
    for level in sorted({level for level, _ in ranked}, reverse=True):
        accepted = [lost for one, lost in ranked if one >= level]
        points.append(
            {
                "coverage": len(accepted) / n_items,
                "selective_risk": sum(accepted) / len(accepted),
                "generalized_risk": sum(accepted) / n_items,
                "threshold": level,
            }
        )
    return points


def ranked_items(items: Sequence[Item], loss: str) -> list[tuple[float, float]]:
    return [(item["confidence"], item_loss(item, loss)) for item in predicted(items)]


def area(x: Sequence[float], y: Sequence[float], limit: float) -> float:
    """Integrate by trapezoids up to a coverage, interpolating to land on it."""
    total = 0.0
    for x0, x1, y0, y1 in zip(x, x[1:], y, y[1:], strict=False):
        if x0 >= limit:
            break
        end = min(x1, limit)
        at_end = y0 + (y1 - y0) * (end - x0) / (x1 - x0)
        total += (end - x0) * (y0 + at_end) / 2
    return total


def aurc(points: Sequence[Mapping[str, float]], limit: float = 1.0) -> float:
    """Return the area under the selective risk; the risk at 0 is that of the first point."""
    if not points:
        return NAN
    risk = [point["selective_risk"] for point in points]
    return area([0, *(point["coverage"] for point in points)], [risk[0], *risk], limit)


def augrc(points: Sequence[Mapping[str, float]], limit: float = 1.0) -> float:
    """Return the area under the generalized risk, which is 0 at coverage 0."""
    if not points:
        return NAN
    risk = [point["generalized_risk"] for point in points]
    return area([0, *(point["coverage"] for point in points)], [0, *risk], limit)


def lower_hull(points: Sequence[Mapping[str, float]]) -> list[Mapping[str, float]]:
    """Return the points of the lower convex hull of selective risk over coverage."""
    hull: list[Mapping[str, float]] = []
    for point in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = ((p["coverage"], p["selective_risk"]) for p in hull[-2:])
            x2, y2 = point["coverage"], point["selective_risk"]
            if (y1 - y0) * (x2 - x0) < (y2 - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append(point)
    return hull


def risk_at(points: Sequence[Mapping[str, float]], coverage: float) -> tuple[float, float] | None:
    """Return risk and coverage of the first working point that covers enough."""
    for point in points:
        if point["coverage"] >= coverage:
            return point["selective_risk"], point["coverage"]
    return None


GRID = tuple(step / 10 for step in range(1, 10))


def curve_figures(
    items: Sequence[Item], loss: str, *, area_coverage: float = 0.5
) -> dict[str, Any]:
    """Return what an artifact says of one confidence variant, but for its intervals."""
    ranked = ranked_items(items, loss)
    points = curve(ranked, len(items))
    # The oracle ranks every item by its loss, and no two of them alike.
    losses = sorted(lost for _, lost in ranked)
    oracle = curve([(-i, lost) for i, lost in enumerate(losses)], len(items))
    full, generalized = aurc(points), augrc(points)
    best, best_generalized = aurc(oracle), augrc(oracle)
    hull = aurc(lower_hull(points))
    used = min(area_coverage, cmax(items))
    at = {c: risk_at(points, c) for c in GRID}
    return {
        "cmax": cmax(items),
        "aurc_full": full,
        "augrc_full": generalized,
        "aurc_optimal": best,
        "augrc_optimal": best_generalized,
        "eaurc": full - best,
        "eaugrc": generalized - best_generalized,
        "aurc_achievable": hull,
        "interpretation": {
            "aurc_gap_pct": percent(full - best, best),
            "augrc_gap_pct": percent(generalized - best_generalized, best_generalized),
            "achievable_gain_pct": percent(full - hull, full),
        },
        "aurc_at_c": {
            "requested": area_coverage,
            "used": used,
            "value": aurc(points, area_coverage),
        },
        "augrc_at_c": {
            "requested": area_coverage,
            "used": used,
            "value": augrc(points, area_coverage),
        },
        "mae_at_coverage": {
            f"{c:.2f}": {
                "requested": c,
                "achieved": None if found is None else found[1],
                "value": None if found is None else found[0],
            }
            for c, found in at.items()
        },
        "curve": {key: [point[key] for point in points] for key in points[0]} if points else {},
    }


def percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


# Bootstrap (seed 004) ----------------------------------------------------------------------------


class MersenneTwister:
    """The generator of published draws: MT19937, seeded by one number."""

    def __init__(self, seed: int) -> None:
        self.state = [seed & 0xFFFFFFFF]
        for i in range(1, 624):
            last = self.state[-1]
            self.state.append((1812433253 * (last ^ (last >> 30)) + i) & 0xFFFFFFFF)
        self.position = 624

    def word(self) -> int:
        if self.position == 624:
            s = self.state
            for i in range(624):
                y = (s[i] & 0x80000000) | (s[(i + 1) % 624] & 0x7FFFFFFF)
                s[i] = s[(i + 397) % 624] ^ (y >> 1) ^ (0x9908B0DF if y & 1 else 0)
            self.position = 0
        y = self.state[self.position]
        self.position += 1
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        return y ^ (y >> 18)

    def below(self, n: int) -> int:
        """Draw a whole number below n: cut a word to enough bits, again where it is too large."""
        mask = (1 << (n - 1).bit_length()) - 1
        if not mask:
            return 0
        while True:
            drawn = self.word() & mask
            if drawn < n:
                return drawn


def published_draws(n: int, n_resamples: int, seed: int) -> list[list[int]]:
    """Return which participants each resample draws, with replacement."""
    generator = MersenneTwister(seed)
    return [[generator.below(n) for _ in range(n)] for _ in range(n_resamples)]


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by linear interpolation."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def interval(values: Iterable[float | None]) -> list[float] | None:
    """Return the 95 % percentile interval of the resamples on which a figure is defined."""
    known = [one for one in values if one is not None and not math.isnan(one)]
    return [percentile(known, 0.025), percentile(known, 0.975)] if len(known) > 1 else None


def by_participant(items: Sequence[Item]) -> list[list[Item]]:
    """Return the items of each participant, in the order of their numbers."""
    groups: dict[Any, list[Item]] = defaultdict(list)
    for item in items:
        groups[item["participant"]].append(item)
    return [groups[name] for name in sorted(groups)]


def resampled(items: Sequence[Item], draws: Sequence[Sequence[int]]) -> list[list[Item]]:
    people = by_participant(items)
    return [[item for place in drawn for item in people[place]] for drawn in draws]


def bootstrap_figures(samples: Sequence[Sequence[Item]], loss: str) -> dict[str, list[float]]:
    """Return the figures with intervals of every resample."""
    points = [curve(ranked_items(one, loss), len(one)) for one in samples]
    found: dict[str, list[Any]] = {
        "cmax": [cmax(one) for one in samples],
        "aurc_full": [aurc(one) for one in points],
        "augrc_full": [augrc(one) for one in points],
        "aurc_at_c": [aurc(one, 0.5) for one in points],
        "augrc_at_c": [augrc(one, 0.5) for one in points],
    }
    for c in GRID:
        at = [risk_at(one, c) for one in points]
        found[f"{c:.2f}"] = [NAN if one is None else one[0] for one in at]
    return found


# Run files and artifacts (seed 004) --------------------------------------------------------------


def experiment(run: Mapping[str, Any], mode: str) -> list[Mapping[str, Any]]:
    for one in run["experiments"]:
        if one["provenance"]["mode"] == mode:
            results: list[Mapping[str, Any]] = one["results"]["results"]
            return results
    raise KeyError(mode)


def items_of(run: Mapping[str, Any], mode: str, variant: str, **options: float) -> list[Item]:
    """Return the items of the participants that succeeded."""
    return [
        {
            "participant": person["participant_id"],
            "item": key,
            "pred": person["predicted_items"][key],
            "gt": truth,
            "confidence": confidence(variant, person["item_signals"][key], **options),
        }
        for person in experiment(run, mode)
        if person["success"]
        for key, truth in person["ground_truth_items"].items()
    ]


def population(run: Mapping[str, Any], mode: str) -> dict[str, int]:
    people = experiment(run, mode)
    included = [person for person in people if person["success"]]
    return {
        "participants_total": len(people),
        "participants_included": len(included),
        "participants_failed": len(people) - len(included),
        "items_total": sum(len(person["ground_truth_items"]) for person in included),
    }


def loss_entry(loss: str) -> dict[str, Any]:
    if loss == "abs":
        return {"name": "abs", "definition": "abs(pred - gt)", "raw_multiplier": 1}
    return {"name": "abs_norm", "definition": "abs(pred - gt) / 3", "raw_multiplier": 3}


def artifact(
    run: Mapping[str, Any],
    path: str,
    modes: Sequence[str],
    variant: str,
    loss: str,
    *,
    n_resamples: int = 0,
    seed: int = 42,
) -> dict[str, Any]:
    """Return the artifact of one evaluation or of two compared; without resamples no intervals."""
    sides = [items_of(run, mode, variant) for mode in modes]
    figures = [curve_figures(side, loss) for side in sides]
    comparison: dict[str, Any] = {"enabled": False, "intersection_only": False, "deltas": None}
    keys = ("cmax", "aurc_full", "augrc_full")
    if len(modes) == 2:
        deltas = {key: {"delta": figures[1][key] - figures[0][key]} for key in keys}
        comparison |= {"enabled": True, "deltas": {variant: deltas}}
    if n_resamples:
        draws = published_draws(len(by_participant(sides[0])), n_resamples, seed)
        found = [bootstrap_figures(resampled(side, draws), loss) for side in sides]
        for one, values in zip(figures, found, strict=True):
            ci95: dict[str, Any] = {
                key: interval(v) for key, v in values.items() if not key.startswith("0.")
            }
            # A risk that is not reached has no interval, even where some resamples reach it.
            ci95["mae_at_coverage"] = {
                key: None if at["value"] is None else interval(values[key])
                for key, at in one["mae_at_coverage"].items()
            }
            one["bootstrap"] = {"seed": seed, "n_resamples": n_resamples, "ci95": ci95}
        if len(modes) == 2:
            for key in keys:
                pairs = zip(found[0][key], found[1][key], strict=True)
                deltas[key]["ci95"] = interval(right - left for left, right in pairs)
    whole = figures[0] if len(modes) == 1 else {f"input_{i}": one for i, one in enumerate(figures)}
    return {
        "schema_version": "1",
        "inputs": [{"path": path, **run["run_metadata"], "mode": mode} for mode in modes],
        "population": population(run, modes[0]),
        "loss": loss_entry(loss),
        "confidence_variants": {variant: whole},
        "comparison": comparison,
    }


# Calibrators (seed 004) --------------------------------------------------------------------------


def binary_nll(p: Sequence[float], y: Sequence[float]) -> float:
    """Return the mean log loss, probabilities kept 1e-6 off 0 and 1."""
    kept = [min(max(one, 1e-6), 1 - 1e-6) for one in p]
    return mean(
        -(t * math.log(q) + (1 - t) * math.log(1 - q)) for q, t in zip(kept, y, strict=True)
    )


def ece(p: Sequence[float], y: Sequence[float]) -> float:
    return calibration_error(calibration_bins(list(zip(p, y, strict=True)), 15))


def fit_temperature(p: Sequence[float], y: Sequence[float]) -> float:
    """Return the temperature of the least log loss between 0.05 and 10, by golden section."""

    def loss(log_t: float) -> float:
        return binary_nll([sigmoid(logit(one) / math.exp(log_t)) for one in p], y)

    low, high = math.log(0.05), math.log(10)
    # A coarse search first: the loss need not have one valley over so wide a range.
    steps = [low + (high - low) * i / 60 for i in range(61)]
    best = min(range(61), key=lambda i: loss(steps[i]))
    a, b = steps[max(best - 1, 0)], steps[min(best + 1, 60)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        c, d = b - golden * (b - a), a + golden * (b - a)
        a, b = (a, d) if loss(c) < loss(d) else (c, b)
    return math.exp((a + b) / 2)


def standardised(rows: Sequence[Sequence[float]]) -> tuple[list[list[float]], list[Any]]:
    """Return the columns with mean 0 and deviation 1, and both of every column."""
    columns = list(zip(*rows, strict=True))
    scales = [(mean(column), statistics.pstdev(column) or 1.0) for column in columns]
    return [[(x - m) / s for x, (m, s) in zip(row, scales, strict=True)] for row in rows], scales


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve linear equations by Gaussian elimination."""
    n = len(right)
    rows = [[*matrix[i], right[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [x - factor * z for x, z in zip(rows[k], rows[i], strict=True)]
    found = [0.0] * n
    for i in reversed(range(n)):
        known = sum(rows[i][k] * found[k] for k in range(i + 1, n))
        found[i] = (rows[i][n] - known) / rows[i][i]
    return found


def fit_logistic(rows: Sequence[Sequence[float]], y: Sequence[float]) -> Callable[..., float]:
    """Fit logistic regression by Newton's method: L2 with C = 1, the intercept free."""
    design, scales = standardised(rows)
    design = [[*row, 1.0] for row in design]
    n = len(design[0])
    penalty = [1.0] * (n - 1) + [0.0]
    weights = [0.0] * n
    for _ in range(50):
        p = [sigmoid(sum(w * x for w, x in zip(weights, row, strict=True))) for row in design]
        slope = [
            sum((q - t) * row[j] for q, t, row in zip(p, y, design, strict=True))
            + penalty[j] * weights[j]
            for j in range(n)
        ]
        bend = [
            [
                sum(q * (1 - q) * row[j] * row[k] for q, row in zip(p, design, strict=True))
                + (penalty[j] if j == k else 0.0)
                for k in range(n)
            ]
            for j in range(n)
        ]
        weights = [w - s for w, s in zip(weights, solve(bend, slope), strict=True)]

    def predict(row: Sequence[float]) -> float:
        inside = [(x - m) / s for x, (m, s) in zip(row, scales, strict=True)]
        return sigmoid(sum(w * x for w, x in zip(weights, [*inside, 1.0], strict=True)))

    return predict


def fit_linear(rows: Sequence[Sequence[float]], y: Sequence[float]) -> Callable[..., float]:
    """Fit ridge regression with alpha 1, predictions cut to [0, 1]."""
    design, scales = standardised(rows)
    n, centre = len(design[0]), mean(y)
    gram = [[sum(row[j] * row[k] for row in design) + (j == k) for k in range(n)] for j in range(n)]
    right = [sum(row[j] * (t - centre) for row, t in zip(design, y, strict=True)) for j in range(n)]
    weights = solve(gram, right)

    def predict(row: Sequence[float]) -> float:
        inside = [(x - m) / s for x, (m, s) in zip(row, scales, strict=True)]
        return min(max(centre + sum(w * x for w, x in zip(weights, inside, strict=True)), 0), 1)

    return predict


def fit_isotonic(x: Sequence[float], y: Sequence[float]) -> Callable[[float], float]:
    """Fit a rising function by pooling adjacent violators, with straight lines in between."""
    inputs = sorted(set(x))
    blocks = [
        [mean(t for one, t in zip(x, y, strict=True) if one == v), x.count(v), 1] for v in inputs
    ]
    i = 0
    while i < len(blocks) - 1:
        if blocks[i][0] <= blocks[i + 1][0]:
            i += 1
            continue
        (m0, n0, k0), (m1, n1, k1) = blocks[i : i + 2]
        blocks[i : i + 2] = [[(m0 * n0 + m1 * n1) / (n0 + n1), n0 + n1, k0 + k1]]
        i = max(i - 1, 0)
    outputs = [m for m, _, k in blocks for _ in range(int(k))]

    def predict(value: float) -> float:
        if value <= inputs[0]:
            return outputs[0]
        for j in range(1, len(inputs)):
            if value <= inputs[j]:
                share = (value - inputs[j - 1]) / (inputs[j] - inputs[j - 1])
                return outputs[j - 1] + share * (outputs[j] - outputs[j - 1])
        return outputs[-1]

    return predict


def consistency(samples: Sequence[int | None]) -> tuple[float, float | None]:
    """Return the share of the commonest answer, abstention among them, and the spread of scores."""
    scores = [one for one in samples if one is not None]
    share = max(Counter(samples).values()) / len(samples)
    return share, statistics.pstdev(scores) if scores else None
