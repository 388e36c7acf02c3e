"""Turn patients into records: what is shown, what is true, and whether the case asks to defer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np
from scipy.special import expit

from krisis.data.base import Features, Label, PatientRecord, SuiteConfig, Task
from krisis.data.ckd import latent
from krisis.data.ckd.assessment import CKD_ABSENT, CKD_PRESENT, Assessment, Assessor
from krisis.data.ckd.cohort import SyntheticPatient
from krisis.data.ckd.deferral import DeferralRule
from krisis.data.ckd.egfr import (
    CATEGORY_LIMITS,
    CATEGORY_NAMES,
    category_index,
    ckd_epi_2021,
    printed_down,
    stage,
)
from krisis.data.ckd.imputation import Imputer
from krisis.data.ckd.progression import Course, course_features
from krisis.data.ckd.schema import Value, feature_names, usable
from krisis.data.ckd.uci import UciPatient
from krisis.json_values import JsonObject

Shown: TypeAlias = dict[str, Value]
_AGE_BANDS = ((0, 18, "0–17"), (18, 40, "18–39"), (40, 60, "40–59"), (60, 75, "60–74"))


@dataclass(frozen=True, slots=True)
class RecordMaker:
    """The choices under which patients become records of one task."""

    config: SuiteConfig
    rule: DeferralRule
    split_stage_3: bool = False
    sex: str = "unknown"
    display_imputer: Imputer | None = None

    def synthetic(
        self, patient: SyntheticPatient, *, stream: int, course: Course | None = None
    ) -> PatientRecord:
        """Return the record of a patient of the embedded cohort; the truth is the latent state."""
        shown = self._shown(patient.visible)
        if course is not None:
            shown = self._with_visits(shown, patient, course)
        label = self._label(patient, patient.gfr) if course is None else course.label
        features, imputed = self._filled(shown)
        metadata = {
            "synthetic": True,
            "source": "embedded",
            **_stage_fields(patient.gfr),
            **group_fields(patient.visible),
            "true_gfr": patient.gfr,
            "true_acr_mg_g": patient.acr_mg_g,
            "imputed": imputed,
            **({} if course is None else {"true_first_gfr": course.first_gfr}),
        }
        if stream == 0:
            estimates = _estimates(patient.visible, usable(patient.visible, "sex"))
            metadata |= self._deferral(shown, label, estimates, exact=True)
        name = f"embedded-{self.config.seed}-{'train-' * (stream > 0)}{patient.number}"
        return PatientRecord(features, label, metadata, name)

    def real(self, patient: UciPatient, engineer: Imputer) -> PatientRecord:
        """Return the record of a patient of the file; ``engineer`` fills what a stage needs."""
        sex, sex_source = self._sex(patient)
        values = {**patient.values, "sex": sex}
        shown = self._shown(values, with_days=False)
        complete, gaps = engineer.fill(patient.values)
        estimates = _estimates(complete, sex)
        gfr = self._label_gfr(complete, sex, estimates)
        label = self._label(patient, gfr)
        features, imputed = self._filled(shown)
        metadata = {
            "synthetic": False,
            "source": "file",
            **_stage_fields(gfr),
            **group_fields(values),
            "egfr": gfr if len(estimates) == 1 else None,
            **{f"egfr_if_{name}": value for name, value in estimates.items()},
            "sex_source": sex_source,
            "stage_from_imputed": [name for name in ("age", "sc") if name in gaps],
            "imputed": imputed,
            **self._deferral(shown, label, estimates, exact=False),
        }
        return PatientRecord(features, label, metadata, f"uci-{patient.patient_id}")

    def _label(self, patient: SyntheticPatient | UciPatient, gfr: float) -> Label:
        if self.config.task == Task.STAGING:
            return stage(gfr, split_stage_3=self.split_stage_3)
        return CKD_PRESENT if patient.has_ckd else CKD_ABSENT

    def _shown(self, values: Mapping[str, Value], *, with_days: bool = True) -> Shown:
        names = list(feature_names(self.config.features))
        if self.config.task != Task.DETECTION:
            names = list(dict.fromkeys(["age", "sex", *names]))
        if self.config.task == Task.STAGING and with_days:
            names.append("days_observed")
        return {name: values[name] for name in names}

    def _with_visits(self, shown: Shown, patient: SyntheticPatient, course: Course) -> Shown:
        shown.pop("sc")  # the visits show it, with its day
        age, sex = patient.visible["age"], patient.visible["sex"]
        if age is None or sex is None:
            raise AssertionError("a course needs age and sex, which its estimates are made from")
        return shown | course_features(course, age=int(age), female=bool(sex))

    def _filled(self, shown: Shown) -> tuple[Shown, list[str]]:
        return (shown, []) if self.display_imputer is None else self.display_imputer.fill(shown)

    def _deferral(
        self, shown: Features, label: Label, estimates: Mapping[str, float], *, exact: bool
    ) -> JsonObject:
        assessor = Assessor(self.config.task, self.split_stage_3, exact)
        assessment = assessor(shown)
        reasons = self.rule.reasons(assessment.visible_reasons, assessment.p_misclass)
        if self.rule.kind == "margin":
            reasons = self._margin(assessment, label, estimates)
        return {
            "should_abstain": bool(reasons),
            "abstain_reasons": reasons,
            "p_misclass": assessment.p_misclass,
        }

    def _margin(
        self, assessment: Assessment, label: Label, estimates: Mapping[str, float]
    ) -> list[str]:
        if self.config.task == Task.PROGRESSION:
            kept = ("change_within_variability", "too_few_visits")
            return [reason for reason in assessment.visible_reasons if reason in kept]
        detection = self.config.task == Task.DETECTION
        limits = (60.0,) if detection else CATEGORY_LIMITS
        distances = [abs(value - limit) for value in estimates.values() for limit in limits]
        close = any(distance <= self.rule.margin_ml_min for distance in distances)
        found = ["within_margin"] if close else []
        says_ckd = [value < 60.0 for value in estimates.values()]
        if detection and says_ckd and all(says != (label == CKD_PRESENT) for says in says_ckd):
            found.append("label_conflicts_with_estimate")
        return found

    def _sex(self, patient: UciPatient) -> tuple[int | None, str]:
        if patient.female is not None:
            return patient.female, "column"
        if self.sex == "engineered":
            return _engineered_sex(patient, self.config.seed), "engineered"
        return None, "unknown"

    def _label_gfr(
        self, complete: Mapping[str, Value], sex: int | None, estimates: Mapping[str, float]
    ) -> float:
        """Return the estimate whose stage is the label; of two that differ, the more probable."""
        if len({int(category_index(value)) for value in estimates.values()}) == 1:
            return next(iter(estimates.values()))
        shown = {"sc": complete["sc"], "age": complete["age"], "sex": sex}
        assessment = Assessor(Task.STAGING, split_stage_3=True)(shown)
        return max(
            estimates.values(),
            key=lambda value: assessment.probabilities[stage(value, split_stage_3=True)],
        )


def _estimates(values: Mapping[str, Value], sex: Value) -> dict[str, float]:
    """Return the estimate by sex: of the sex that is known, else of both."""
    creatinine, age = values["sc"], values["age"]
    if creatinine is None or age is None:
        return {}
    return {
        name: printed_down(float(ckd_epi_2021(creatinine, age, female=female)), 2)
        for name, female in (("male", False), ("female", True))
        if sex is None or female == bool(sex)
    }


def _stage_fields(gfr: float) -> JsonObject:
    return {"ckd_stage": stage(gfr), "gfr_category": CATEGORY_NAMES[int(category_index(gfr))]}


def _engineered_sex(patient: UciPatient, seed: int) -> int:
    """Draw a sex given creatinine: women are likelier at low values. An assumption, not a fact."""
    creatinine = usable(patient.values, "sc")
    chance = 0.5 if creatinine is None else float(np.clip(expit(4 * (0.95 - creatinine)), 0.2, 0.8))
    draw = np.random.default_rng([seed, crc32(patient.patient_id.encode())]).random()
    return int(draw < chance)


def adults_with_context(patient: SyntheticPatient, person: latent.Person) -> SyntheticPatient:
    """Return the patient with age and sex shown, as a course of estimates implies."""
    number = patient.number
    known = {"age": int(person.age[number]), "sex": int(person.female[number])}
    return SyntheticPatient(number, {**patient.visible, **known}, patient.gfr, patient.acr_mg_g)


def group_fields(values: Mapping[str, Value]) -> dict[str, str | None]:
    """Return sex and age band as far as they are known; metadata, never shown to a model.

    >>> group_fields({"sex": 1, "age": 61})
    {'sex': 'female', 'age_band': '60–74'}
    """
    sex, age = values.get("sex"), values.get("age")
    return {
        "sex": None if sex is None else ("female" if sex else "male"),
        "age_band": None if age is None else _band(float(age)),
    }


def _band(age: float) -> str:
    return next((name for low, high, name in _AGE_BANDS if low <= age < high), "75+")
