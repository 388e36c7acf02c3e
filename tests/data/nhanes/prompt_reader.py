"""A reader of the prompts of `diabetes` and `hypertension` who knows nothing but their text.

It is given the messages that a model is sent, takes limits, scatter, shares and price out of them,
and replies as a model would. It imports nothing of krisis, so it cannot know more than a model.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

_NUMBER = r"\d+(?:\.\d+)?"
_BELOW = r"systolic below (\d+) and diastolic below (\d+)"


def reply(request: Any) -> str:
    """Answer one single-case request."""
    instructions, case = request.system, findings(request.user)
    (price,) = numbers(instructions, rf"Abstaining costs ({_NUMBER}) %")
    if "Reading 1, systolic" in case:
        answer, chance, undecided = pressure(instructions, case)
    elif "in percent, among others" in instructions:
        answer, chance, undecided = by_table(instructions, case)
    else:
        answer, chance, undecided = by_hba1c(instructions, case)
    abstains = undecided or chance >= price / 100 - 1e-9
    said = {
        "abstained": abstains,
        "prediction": None if abstains else answer,
        "confidence": None if abstains else 1 - chance,
    }
    return json.dumps(said)


def findings(text: str) -> dict[str, Any]:
    """Take the shown values out of the case; what is missing is None."""
    found: dict[str, Any] = {}
    for name, value in re.findall(r"^- ([^:\n]+): (.+)$", text, re.MULTILINE):
        number = re.match(_NUMBER, value)
        missing = value in ("not measured", "not stated")
        found[name] = None if missing else float(number.group()) if number else value
    return found


def numbers(text: str, pattern: str) -> tuple[float, ...]:
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise AssertionError(f"the prompt does not state {pattern!r}")
    return tuple(map(float, found.groups()))


def answers(text: str) -> list[str]:
    block = text.split("Allowed answers:\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^- ([^:]+):", block, re.MULTILINE)


def below(limit: float, value: float, sd: float) -> float:
    return 0.5 * math.erfc((value - limit) / sd / math.sqrt(2))


def pressure(text: str, case: dict[str, Any]) -> tuple[Any, float, bool]:
    sds = numbers(text, rf"of ({_NUMBER}) mmHg systolic and ({_NUMBER}) mmHg diastolic")
    readings = [
        (case[f"Reading {k}, systolic"], case[f"Reading {k}, diastolic"]) for k in (1, 2, 3)
    ]
    shown = [[pair[i] for pair in readings if pair[i] is not None] for i in (0, 1)]
    means = [sum(values) / len(values) for values in shown]
    errors = [sd / math.sqrt(len(values)) for sd, values in zip(sds, shown, strict=True)]
    undecided = False
    if "Does this person have hypertension" in text:
        pattern = (
            r"must reach (\d+) mmHg systolic or (\d+) mmHg diastolic.*?"
            r"unless it reaches (\d+) systolic or (\d+) diastolic"
        )
        systolic, diastolic, high, low = numbers(text, pattern)
        scales = [[(systolic, diastolic)]]
        raised = means[0] >= systolic or means[1] >= diastolic
        undecided = raised and means[0] < high and means[1] < low
    elif "not stated which of them applies" in text:
        lines = [line for line in text.splitlines() if "; hypertension: " in line]
        scales = [limits(line) for line in lines]
        assert len(scales) == 2
    else:
        scales = [limits(text.split("Allowed answers:", 1)[1].split("\n\n", 1)[0])]
    judged = [on_scale(scale, means, errors, readings) for scale in scales]
    undecided |= len({place for place, _, _ in judged}) > 1 or any(d for _, _, d in judged)
    return answers(text)[judged[0][0]], max(chance for _, chance, _ in judged), undecided


def limits(text: str) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in re.findall(_BELOW, text)]


def on_scale(
    scale: list[tuple[float, float]], means: list[float], errors: list[float], readings: Any
) -> tuple[int, float, bool]:
    def place(systolic: float, diastolic: float) -> int:
        for k, (high, low) in enumerate(scale):
            if systolic < high and diastolic < low:
                return k
        return len(scale)

    up_to = [
        below(high, means[0], errors[0]) * below(low, means[1], errors[1]) for high, low in scale
    ]
    mine = place(*means)
    inside = (up_to[mine] if mine < len(scale) else 1.0) - (up_to[mine - 1] if mine else 0.0)
    whole = [pair for pair in readings if None not in pair]
    return mine, 1 - inside, len({place(*pair) for pair in whole}) > 1


def by_hba1c(text: str, case: dict[str, Any]) -> tuple[Any, float, bool]:
    person, laboratory = numbers(text, rf"by ({_NUMBER}) % within the person and ({_NUMBER}) %")
    value = case["HbA1c"]
    sd = value * math.hypot(person, laboratory) / 100
    if "Does this person have diabetes?" not in text:
        block = text.split("Allowed answers:", 1)[1].split("\n\n", 1)[0]
        edges = [float(e) for e in re.findall(rf"below ({_NUMBER}) %", block)]
        place = sum(value >= edge for edge in edges)
        sides = [0.0, *(below(edge, value, sd) for edge in edges), 1.0]
        return answers(text)[place], 1 - (sides[place + 1] - sides[place]), False
    (limit,) = numbers(text, rf"HbA1c is ({_NUMBER}) % or more; the answer")
    (normal,) = numbers(text, rf"told of diabetes and HbA1c is below ({_NUMBER}) %")
    told = case["A doctor has told of diabetes"]
    treated = "yes" in (case["Takes insulin"], case["Takes tablets that lower blood sugar"])
    undecided = (
        (value >= limit and told != "yes")
        or (told == "yes" and value < normal)
        or (treated and (value < normal or told == "no"))
        or told == "borderline"
    )
    chance = below(limit, value, sd)
    chance = (chance if value >= limit else 1 - chance) if told == "no" else 0.0
    return answers(text)[told == "yes" or value >= limit], chance, undecided


def by_table(text: str, case: dict[str, Any]) -> tuple[Any, float, bool]:
    bmi = case["Body mass index"]
    if bmi is None:
        return None, 1.0, True
    lines = re.findall(r"^  (told [^|\n]+) \| (.+)$", text, re.MULTILINE)
    (row,) = [shares for who, shares in lines if belongs(who, case, bmi)]
    shares = [float(share) for share in row.split("|")]
    best = shares.index(max(shares))
    return answers(text)[best], 1 - shares[best] / 100, False


def belongs(who: str, case: dict[str, Any], bmi: float) -> bool:
    told = {"no": "told no diabetes", "yes": "told of diabetes"}.get(
        case["A doctor has told of diabetes"], "told of borderline diabetes"
    )
    treated = "yes" in (case["Takes insulin"], case["Takes tablets that lower blood sugar"])
    parts = who.split(", ")
    tests = [parts[0] == told]
    for part in parts[1:]:
        figures = [float(n) for n in re.findall(_NUMBER, part)]
        if part in ("treated", "not treated"):
            tests.append(treated == (part == "treated"))
        elif part.startswith("BMI below"):
            tests.append(bmi < figures[0])
        elif part.startswith("BMI"):
            tests.append(bmi >= figures[0] and (len(figures) == 1 or bmi < figures[1]))
        else:
            tests.append(figures[0] <= case["Age"] <= [*figures, 200][1])
    return all(tests)
