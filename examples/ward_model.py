"""A stand-in for a language model: it reads the kidney prompt, and errs as models do.

It takes every patient for a man, is surer than it may be, and leans towards the answer that is
listed first. It abstains where it finds no creatinine or no age.
"""

import json
import math
import re

from krisis.backends.chat import ChatRequest
from krisis.backends.scripted import ScriptedBackend


def reply(request: ChatRequest) -> str:
    """Answer one case, 0 being disease."""
    values = dict(re.findall(r"^- (.+?): ([\d.]+)", request.user, re.MULTILINE))
    if not {"Serum creatinine", "Age"} <= set(values):
        return json.dumps({"abstained": True, "prediction": None, "confidence": None})
    relative = float(values["Serum creatinine"]) / 0.9  # CKD-EPI 2021 for men, in mg/dL
    egfr = 142 * min(relative, 1) ** -0.302 * max(relative, 1) ** -1.2
    egfr *= 0.9938 ** float(values["Age"])
    grade = float(values.get("Urine albumin by dipstick", 0))
    lean = 0.4 if "Allowed answers:\n- 0" in request.system else -0.4
    evidence = 4 * math.tanh(((60 - egfr) / 8 + 3 * grade + lean) / 4)
    disease = 1 / (1 + math.exp(-evidence if evidence > 0 else -0.7 * evidence))
    said = {
        "abstained": False,
        "prediction": int(disease < 0.5),
        "confidence": round(max(disease, 1 - disease), 3),
    }
    return json.dumps(said)


class WardModel(ScriptedBackend):
    """Plays the language model of a ward."""

    name = "ward"

    def __init__(self) -> None:
        super().__init__(reply, model="ward-1")
