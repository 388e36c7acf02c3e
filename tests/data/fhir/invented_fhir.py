"""Invented patients as FHIR R4: resources, a bulk-export folder and transaction bundles of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

Resource = dict[str, Any]
LOINC = "http://loinc.org"
CREATININE, HBA1C = "2160-0", "4548-4"


def patient(name: str, *, born: str = "1960-06-15", sex: str = "female") -> Resource:
    return {
        "resourceType": "Patient",
        "id": name,
        "identifier": [{"value": f"MRN-{name}"}],
        "name": [{"family": "Invented", "given": ["Ida"]}],
        "address": [{"city": "Nowhere"}],
        "text": {"status": "generated", "div": "<div>Ida Invented</div>"},
        "gender": sex,
        "birthDate": born,
    }


def observation(
    name: str,
    who: str,
    value: float,
    *,
    at: str | None = "2024-01-10",
    code: str = CREATININE,
    unit: str | None = "mg/dL",
    **more: Any,
) -> Resource:
    quantity = {"value": value}
    if unit is not None:
        quantity |= {"unit": unit, "system": "http://unitsofmeasure.org", "code": unit}
    return {
        "resourceType": "Observation",
        "id": name,
        "status": "final",
        "code": {"coding": [{"system": LOINC, "code": code}], "text": "made up"},
        "subject": {"reference": f"Patient/{who}"},
        **({"effectiveDateTime": at} if at else {}),
        "valueQuantity": quantity,
        **more,
    }


def condition(name: str, who: str, code: str = "44054006", **more: Any) -> Resource:
    return {
        "resourceType": "Condition",
        "id": name,
        "code": {"coding": [{"system": "http://snomed.info/sct", "code": code}]},
        "subject": {"reference": f"Patient/{who}"},
        "recordedDate": "2024-02-01",
        **more,
    }


def encounter(name: str, who: str, start: str) -> Resource:
    return {
        "resourceType": "Encounter",
        "id": name,
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": f"Patient/{who}"},
        "period": {"start": start},
    }


def write_ndjson(folder: Path, *resources: Resource) -> Path:
    """Write one NDJSON file per type, as a bulk export does."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in dict.fromkeys(one["resourceType"] for one in resources):
        lines = [json.dumps(one) for one in resources if one["resourceType"] == kind]
        (folder / f"{kind}.ndjson").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def as_bundle(*resources: Resource, kind: str = "transaction") -> Resource:
    """Return a bundle whose resources name each other by fullUrl, as before a server has ids."""
    urls = {
        f"{one['resourceType']}/{one['id']}": f"urn:uuid:{i:08d}" for i, one in enumerate(resources)
    }
    text = json.dumps(resources)
    for key, url in urls.items():
        text = text.replace(f'"reference": "{key}"', f'"reference": "{url}"')
    entries = [
        {"fullUrl": url, "resource": one, "request": {"method": "POST"}}
        for url, one in zip(urls.values(), json.loads(text), strict=True)
    ]
    return {"resourceType": "Bundle", "type": kind, "entry": entries}


def clinic(n_patients: int = 60, seed: int = 7) -> list[Resource]:
    """Draw patients with an encounter, HbA1c values and, for the high ones, a condition."""
    rng = random.Random(seed)
    found: list[Resource] = []
    for number in range(n_patients):
        who = f"p{number}"
        born = f"{rng.randint(1935, 1995)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"
        found.append(patient(who, born=born, sex=rng.choice(["female", "male"])))
        found.append(encounter(f"e{number}", who, "2024-03-01T09:00:00Z"))
        level = rng.gauss(6.2, 1.1)
        for visit in range(rng.randint(0, 3)):
            value = round(level + rng.gauss(0, 0.15), 1)
            at = f"2023-0{visit + 1}-05"
            found.append(observation(f"a{number}.{visit}", who, value, at=at, code=HBA1C, unit="%"))
        creatinine = round(rng.gauss(1.0, 0.25), 2)
        found.append(observation(f"c{number}", who, creatinine, at="2023-05-02"))
        if level >= 6.5:
            found.append(condition(f"d{number}", who))
    return found
