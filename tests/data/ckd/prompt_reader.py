"""A reader of kidney prompts who knows nothing but their text.

It plays the provider of a `ScriptedBackend`: it is given the messages that a model is sent, takes
every figure out of them (shares, dipstick errors, scatter, prices), works out Bayes' rule by itself
and replies as a model would. It imports nothing of krisis, so it cannot know more than a model.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import norm

_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_LIMITS = np.array([15.0, 30.0, 45.0, 60.0, 90.0])
_MAP = (
    "low moderate high",
    "moderate high very-high",
    "high very-high very-high",
    "very-high " * 3,
)
_ROW_OF_MAP = (3, 3, 2, 1, 0, 0)  # of the six ranges of eGFR, lowest first


def reply(request: Any) -> str:
    """Answer one single-case request."""
    facts = read_facts(request.system)
    probabilities, by_rule = judge(facts, read_findings(facts, request.user))
    best = max(probabilities, key=lambda answer: probabilities[answer])
    abstains = bool(by_rule) or 1 - probabilities[best] >= facts.price
    said = {
        "abstained": abstains,
        "prediction": None if abstains else best,
        "confidence": None if abstains else round(min(1.0, probabilities[best]), 4),
    }
    return json.dumps(said)


@dataclass(frozen=True)
class Facts:
    """What the instructions state."""

    task: str
    answers: tuple[str, ...]
    price: float
    possible: dict[str, tuple[float, float]]
    ages: tuple[float, float, float, float]
    women: float
    diabetes: float
    levels: Any  # log eGFR of a fine row of levels
    ranges: Any  # the range of each level, lowest first
    shares: Any  # their probability without and with diabetes
    scatter: float
    acute: tuple[float, float, float]
    mixed_up: float
    albuminuria: Any = None  # by diabetes, level and ACR
    dipstick: Any = None  # by ACR and grade
    changes: Any = None  # log change and its probability


@lru_cache(maxsize=16)
def read_facts(text: str) -> Facts:
    """Take the figures out of the instructions."""
    answers = re.findall(r"^- ([\w ]+): ", between(text, "Allowed answers:", "What "), re.MULTILINE)
    question = between(text, "Question: ", "Allowed answers:")
    task = next(
        name
        for words, name in (
            ("have chronic kidney disease?", "detection"),
            ("In which stage", "staging"),
            ("ratio (ACR) lie?", "albuminuria"),
            ("KDIGO map", "risk"),
            ("developed from the first visit", "progression"),
        )
        if words in question
    )
    possible = {
        words: (float(low), float(high))
        for words, low, high in re.findall(
            rf"^- ([^:\n]+): .*?possible ({_NUMBER}) to ({_NUMBER})", text, re.MULTILINE
        )
    }
    lowest, highest = numbers(text, rf"the lowest is ({_NUMBER}), the highest ({_NUMBER})\.")
    edges = np.log([lowest, *_LIMITS, highest])
    levels = np.concatenate(
        [low + (np.arange(60) + 0.5) / 60 * (high - low) for low, high in pairwise(edges)]
    )
    ranges = np.repeat(np.arange(6), 60)
    per_range = np.array([row(text, rf"^  {known} \|") for known in ("no", "yes")])
    person, laboratory = numbers(text, rf"by ({_NUMBER}) % within the person and ({_NUMBER}) %")
    scatter = math.hypot(person, laboratory) / 100
    acute = numbers(
        text, rf"In ({_NUMBER}) % of [^,]+, acute .*? to ({_NUMBER}) to ({_NUMBER}) times"
    )
    course = task == "progression"
    return Facts(
        task,
        tuple(answers),
        numbers(text, rf"Abstaining costs ({_NUMBER}) %")[0] / 100,
        possible,
        numbers(
            text,
            rf"of ({_NUMBER}) to ({_NUMBER}) years, .* around ({_NUMBER}) .* of ({_NUMBER});",
        ),
        numbers(text, rf"({_NUMBER}) % are women")[0] / 100,
        numbers(text, rf"({_NUMBER}) % have known diabetes")[0] / 100,
        levels,
        ranges,
        per_range[:, ranges] / 100 / 60,
        scatter,
        (acute[0] / 100, acute[1], acute[2]),
        numbers(text, rf"another patient's in ({_NUMBER}) %")[0] / 100,
        None if course else read_albuminuria(text),
        None
        if course
        else np.array(
            [row(text, rf"^  {acr} \|", 6) for acr in ("below 30", "30 to 300", "above 300")]
        )
        / 100,
        read_changes(text) if course else None,
    )


def between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def numbers(text: str, pattern: str) -> tuple[float, ...]:
    found = re.search(pattern, text)
    if found is None:
        raise AssertionError(f"the prompt does not state {pattern!r}")
    return tuple(map(float, found.groups()))


def row(text: str, pattern: str, n_columns: int = 6) -> list[float]:
    lines = [line for line in text.splitlines() if re.match(pattern, line)]
    cells = [line.split("|")[1:] for line in lines]
    (found,) = [one for one in cells if len(one) == n_columns]
    return [float(cell) for cell in found]


def read_albuminuria(text: str) -> Any:
    rows = [
        [row(text, rf"^  {level}, {known} \|", 3) for level in ("below 30", "30-59", "60 or more")]
        for known in ("no", "yes")
    ]
    by_range = np.array(rows)[:, [0, 0, 1, 1, 2, 2]]
    return by_range / 100


def read_changes(text: str) -> Any:
    bands = re.findall(rf"from ({_NUMBER}) to ({_NUMBER}) % in ({_NUMBER}) %", text)
    middles, shares = [], []
    for low, high, share in bands:
        start, end = math.log1p(float(low) / 100), math.log1p(float(high) / 100)
        middles.append(start + (np.arange(12) + 0.5) / 12 * (end - start))
        shares.append(np.full(12, float(share) / 1200))
    return np.concatenate(middles), np.concatenate(shares)


def read_findings(facts: Facts, text: str) -> dict[str, Any]:
    """Take the shown values out of the case; what was not measured is left out."""
    found: dict[str, Any] = {}
    for name, value in re.findall(r"^- ([^:\n]+): (.+)$", text, re.MULTILINE):
        number = re.match(rf"{_NUMBER}", value)
        if value not in ("not measured", "not stated"):
            found[name] = float(number.group()) if number else value
    return found


def judge(facts: Facts, case: dict[str, Any]) -> tuple[dict[str, float], list[str]]:
    """Return the probability of each answer, and the rules that leave the case undecided."""
    by_rule = []
    for name, (low, high) in facts.possible.items():
        if name in case and not low <= case[name] <= high:
            by_rule.append("impossible")
            if name != "Haemoglobin":
                del case[name]
    if contradicts(case):
        by_rule.append("contradiction")
    cannot_be_right = bool(by_rule)
    if facts.task == "progression":
        found, before, rules = course(facts, case)
    else:
        found, before, rules = one_visit(facts, case)
    if cannot_be_right:
        found = facts.mixed_up * before + (1 - facts.mixed_up) * found
    if facts.task != "albuminuria" and case.get("Age", 99) < 18:
        rules.append("child")
    return dict(zip(facts.answers, map(float, found), strict=True)), by_rule + rules


def contradicts(case: dict[str, Any]) -> bool:
    haemoglobin, cells = case.get("Haemoglobin"), case.get("Packed cell volume")
    if haemoglobin and haemoglobin <= 25 and cells and not 2 <= cells / haemoglobin <= 4:
        return True
    creatinine, urea = case.get("Serum creatinine"), case.get("Blood urea")
    if creatinine is None or urea is None:
        return False
    return (creatinine >= 4 and urea < 20) or (creatinine <= 1.2 and urea >= 120)


def estimate(creatinine: float, age: float, female: bool) -> float:
    """CKD-EPI 2021, which the prompt names."""
    knee, power = (0.7, -0.241) if female else (0.9, -0.302)
    ratio = creatinine / knee
    value = 142 * min(ratio, 1) ** power * max(ratio, 1) ** -1.2 * 0.9938**age
    return value * 1.012 if female else value


@lru_cache(maxsize=4096)
def log_creatinine_levels(age: float, female: bool) -> tuple[Any, Any]:
    """Return rising log eGFR and the log creatinine that has it, by looking the equation up."""
    row_of = np.exp(np.linspace(math.log(0.2), math.log(40), 3000))
    row_egfr = np.array([1.0]) * 142 * 0.9938**age * (1.012 if female else 1.0)
    knee, power = (0.7, -0.241) if female else (0.9, -0.302)
    ratio = row_of / knee
    egfr = row_egfr * np.minimum(ratio, 1) ** power * np.maximum(ratio, 1) ** -1.2
    return np.log(egfr[::-1]), np.log(row_of[::-1])


def printed(
    facts: Facts, shown: float, log_egfr: Any, age: float, female: bool, acute: bool
) -> Any:
    """Return the chance that a steady level prints this creatinine."""
    steady = np.interp(log_egfr, *log_creatinine_levels(age, female))

    def chance(mean: Any) -> Any:
        high, low = math.log(shown + 0.05), math.log(max(shown - 0.05, 1e-6))
        return norm.cdf(high, mean, facts.scatter) - norm.cdf(low, mean, facts.scatter)

    usual = chance(steady)
    if not acute:
        return usual
    share, low, high = facts.acute
    factors = np.log(low) + (np.arange(15) + 0.5) / 15 * np.log(high / low)
    return (1 - share) * usual + share * sum(chance(steady + f) for f in factors) / 15


def one_visit(facts: Facts, case: dict[str, Any]) -> tuple[Any, Any, list[str]]:
    creatinine, age = case.get("Serum creatinine"), case.get("Age")
    days = case.get("Days over which the kidney findings have been observed")
    short = days is not None and days < 90
    sexes = {"female": (True,), "male": (False,)}.get(case.get("Sex"), (False, True))
    seen = np.ones(len(facts.levels))
    if creatinine is not None:
        seen = sum(
            weight * printed(facts, creatinine, facts.levels, years, sex, short)
            for sex, share in ((True, facts.women), (False, 1 - facts.women))
            for years, weight in ages(facts, age, share)
            if sex in sexes
        )
    grade = case.get("Urine albumin by dipstick")
    of_grade = np.ones(3) if grade is None else facts.dipstick[:, int(grade)]
    before = np.zeros((6, 3))
    found = np.zeros((6, 3))
    known = {"no": 0, "yes": 1}.get(case.get("Diabetes mellitus known"))
    for diabetes, share in enumerate((1 - facts.diabetes, facts.diabetes)):
        raised = facts.albuminuria[diabetes]
        total = np.bincount(facts.ranges, share * facts.shares[diabetes], 6)
        before += total[:, None] * raised
        if known in (None, diabetes):
            weight = np.bincount(facts.ranges, share * facts.shares[diabetes] * seen, 6)
            found += weight[:, None] * raised * of_grade
    found /= found.sum()
    rows = []
    if creatinine is not None and age is not None:
        estimates = [estimate(creatinine, age, sex) for sex in sexes]
        rows = [int(np.searchsorted(_LIMITS, value, side="right")) for value in estimates]
    return answers(facts, found), answers(facts, before), missing(facts, case, rows, short)


def ages(facts: Facts, age: float | None, share: float) -> list[tuple[float, float]]:
    """Return the possible ages with their weights, every third year where none is shown."""
    if age is not None:
        return [(age, share)]
    youngest, oldest, mean, spread = facts.ages
    years = np.arange(youngest, oldest + 1, 3)
    return [(float(year), share * float(norm.pdf(year, mean, spread))) for year in years]


def missing(facts: Facts, case: dict[str, Any], rows: list[int], short: bool) -> list[str]:
    """Apply the sentence about what must be shown."""
    grade, task = case.get("Urine albumin by dipstick"), facts.task
    if task == "albuminuria":
        return ["dipstick"] if grade is None else []
    found = ["short"] if short else []
    if task == "detection" and grade is not None and grade >= 3:
        return found
    if not rows:
        found.append("creatinine or age")
    kinds = {
        "detection": (0, 0, 0, 0, 1, 1),
        "staging": (5, 4, 3, 3, 2, 1) if len(facts.answers) == 5 else range(6),
        "risk": _ROW_OF_MAP,
    }[task]
    if len({kinds[one] for one in rows}) > 1:
        found.append("sex")
    least = {"detection": 4, "risk": 2}.get(task)
    if least is not None and grade is None and any(one >= least for one in rows):
        found.append("dipstick")
    return found


def answers(facts: Facts, table: Any) -> Any:
    """Add up the eighteen cells by answer, in the order of the allowed answers."""
    if facts.task == "detection":
        absent = table[4:, 0].sum()
        return np.array([1 - absent, absent])
    if facts.task == "albuminuria":
        return table.sum(axis=0)
    if facts.task == "risk":
        of_cell = [[w.replace("-", " ") for w in _MAP[r].split()] for r in _ROW_OF_MAP]
        return np.array([table[np.array(of_cell) == name].sum() for name in facts.answers])
    by_range = table.sum(axis=1)[::-1]
    if len(facts.answers) == 6:
        return by_range
    return np.array([*by_range[:2], by_range[2] + by_range[3], *by_range[4:]])


def course(facts: Facts, case: dict[str, Any]) -> tuple[Any, Any, list[str]]:
    visits = []
    for k in range(1, 10):
        if f"Visit {k}, day" in case:
            egfr, creatinine = case.get(f"Visit {k}, eGFR"), case.get(f"Visit {k}, creatinine")
            visits.append((case[f"Visit {k}, day"], creatinine, egfr))
    n_days, female = visits[-1][0], case["Sex"] == "female"
    drug = case.get("RAS inhibitor or SGLT2 inhibitor started after the first visit") == "yes"
    change, share = facts.changes
    first = facts.levels[::2, None]
    last = first + change
    low, high = facts.levels[0], facts.levels[-1]
    of_change = np.where((last >= low) & (last <= high), share, 0.0)
    of_change /= of_change.sum(axis=1, keepdims=True)
    outcome = outcomes(np.exp(first), np.exp(last), n_days, drug)
    seen = np.ones_like(last)
    for day, creatinine, _ in visits:
        if creatinine is not None:
            age = case["Age"] - (n_days - day) / 365.25
            acute = n_days < 90 and day == n_days
            levels = np.linspace(math.log(2), math.log(300), 1500)
            table = printed(facts, creatinine, levels, age, female, acute)
            seen = seen * np.interp(first + change * day / n_days, levels, table)
    known = {"no": 0, "yes": 1}.get(case.get("Diabetes mellitus known"))
    before, found = np.zeros(3), np.zeros(3)
    for diabetes, chance in enumerate((1 - facts.diabetes, facts.diabetes)):
        weight = chance * facts.shares[diabetes][::2, None] * of_change
        before += np.bincount(outcome.ravel(), weight.ravel(), 3)
        if known in (None, diabetes):
            found += np.bincount(outcome.ravel(), (weight * seen).ravel(), 3)
    return found / found.sum(), before / before.sum(), course_rules(visits)


def outcomes(first: Any, last: Any, n_days: float, drug: bool) -> Any:
    """Apply the definitions of the answers: 0 stable, 1 worsening, 2 improving."""
    step = np.searchsorted(_LIMITS, last, "right") - np.searchsorted(_LIMITS, first, "right")
    fall = 1 - last / first
    worse = (step < 0) & (fall >= 0.25)
    if n_days >= 365.25:
        worse |= ((first - last) / (n_days / 365.25) > 5) & (fall >= 0.20)
    if drug:
        worse &= fall >= 0.27
    return np.where(worse, 1, np.where((step > 0) & (fall <= -0.25), 2, 0))


def course_rules(visits: list[tuple[float, float | None, float | None]]) -> list[str]:
    first, last = visits[0][2], visits[-1][2]
    if first is None or last is None:
        return ["no estimate at an end"]
    found = ["short"] if visits[-1][0] - visits[0][0] < 90 else []
    if 0.125 <= abs(last / first - 1) < 0.20:
        found.append("band")
    return found
