"""Turn patients into records: what is shown, what is true, and whether the case asks to defer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np
from scipy.special import expit

from krisis.data.base import Features, Label, PatientRecord, SuiteConfig, Task
from krisis.data.ckd.assessment import (
    CKD_ABSENT,
    CKD_PRESENT,
    HEAT_MAP,
    RISKS,
    Assessment,
    Assessor,
)
from krisis.data.ckd.cohort import SyntheticPatient, Truth
from krisis.data.ckd.deferral import DeferralRule, deferral_kind
from krisis.data.ckd.egfr import (
    CATEGORY_LIMITS,
    CATEGORY_NAMES,
    category_index,
    ckd_epi_2021,
    printed_down,
    stage,
)
from krisis.data.ckd.imputation import Imputer
from krisis.data.ckd.progression import LABELS, course_features, course_label, shown_visits
from krisis.data.ckd.schema import Value, feature_names, usable
from krisis.data.ckd.setting import ALBUMINURIA_NAMES
from krisis.data.ckd.uci import UciPatient
from krisis.data.ckd.visits import VisitPatient
from krisis.json_values import JsonObject

Shown: TypeAlias = dict[str, Value]
_AGE_BANDS = ((0, 18, "0–17"), (18, 40, "18–39"), (40, 60, "40–59"), (60, 75, "60–74"))


@dataclass(frozen=True, slots=True)
class RecordMaker:
    """The choices under which patients become records of one task."""

    config: SuiteConfig
    rule: DeferralRule
    assessor: Assessor
    sex: str = "unknown"
    display_imputer: Imputer | None = None

    def synthetic(self, patient: SyntheticPatient, *, stream: int) -> PatientRecord:
        """Return the record of a patient of the embedded cohort; the truth is the latent state."""
        shown = self._shown(patient.visible)
        if patient.course is not None:
            shown = _with_visits(shown, patient)
        truth = patient.truth_behind(shown)
        label = self._latent_label(truth, shown)
        features, imputed = self._filled(shown)
        metadata = {
            "synthetic": True,
            "source": "embedded",
            **_stage_fields(truth.egfr),
            **group_fields(patient.visible),
            ("true_gfr" if self.assessor.equation_error else "usual_egfr"): round(truth.egfr, 2),
            "true_acr_mg_g": truth.acr_mg_g,
            **({} if truth.first_egfr is None else {"first_usual_egfr": truth.first_egfr}),
            "acute_injury": patient.acute,
            "mixed_up": truth is not patient.truth,
            "imputed": imputed,
        }
        if stream == 0:
            estimates = _estimates(patient.visible, usable(patient.visible, "sex"))
            metadata |= self._deferral(shown, label, estimates)
        name = f"embedded-{self.config.seed}-{'train-' * (stream > 0)}{patient.number}"
        return PatientRecord(features, label, metadata, name)

    def real(self, patient: UciPatient | VisitPatient) -> PatientRecord | None:
        """Return the record of a patient of the file, or None where the truth cannot be known."""
        if isinstance(patient, VisitPatient):
            return self._real_course(patient)
        sex, sex_source = self._sex(patient)
        values = {**patient.values, "sex": sex}
        shown = self._shown(values, from_file=True)
        estimates = _estimates(values, sex)
        if self.config.task == Task.STAGING and not estimates:
            return None
        egfr = self._label_egfr(values, estimates) if estimates else None
        diagnosis = CKD_PRESENT if patient.has_ckd else CKD_ABSENT
        label = self._stage(egfr) if self.config.task == Task.STAGING and egfr else diagnosis
        features, imputed = self._filled(shown)
        metadata = {
            "synthetic": False,
            "source": "file",
            **({} if egfr is None else _stage_fields(egfr)),
            **group_fields(values),
            "egfr": egfr if len(estimates) == 1 else None,
            **{f"egfr_if_{name}": value for name, value in estimates.items()},
            "sex_source": sex_source,
            **self._sex_in_truth(estimates),
            "imputed": imputed,
            **self._deferral(shown, label, estimates),
        }
        return PatientRecord(features, label, metadata, f"uci-{patient.patient_id}")

    def _real_course(self, patient: VisitPatient) -> PatientRecord | None:
        shown: Shown = {
            "age": patient.age,
            "sex": patient.female,
            "drug_started": patient.drug_started,
            **course_features(
                patient.days, patient.creatinine, age=patient.age, female=bool(patient.female)
            ),
        }
        visits = shown_visits(shown)
        first, last = visits[0][2], visits[-1][2]
        if first is None or last is None:
            return None
        drug = bool(patient.drug_started)
        label = LABELS[int(course_label(first, last, visits[-1][0], drug=drug))]
        metadata = {
            "synthetic": False,
            "source": "file",
            **_stage_fields(last),
            **group_fields(shown),
            "egfr": last,
            "sex_source": "column",
            "imputed": [],
            **self._deferral(shown, label, {}),
        }
        return PatientRecord(shown, label, metadata, f"visits-{patient.patient_id}")

    def _latent_label(self, truth: Truth, shown: Features) -> Label:
        category = int(category_index(truth.egfr))
        raised = int(truth.acr_mg_g >= 30.0) + int(truth.acr_mg_g > 300.0)
        if truth.first_egfr is not None:
            days, drug = shown_visits(shown)[-1][0], bool(shown["drug_started"])
            return LABELS[int(course_label(truth.first_egfr, truth.egfr, days, drug=drug))]
        if self.config.task == Task.STAGING:
            return self._stage(truth.egfr)
        if self.config.task == Task.ALBUMINURIA:
            return ALBUMINURIA_NAMES[raised]
        if self.config.task == Task.RISK:
            return RISKS[HEAT_MAP[category, raised]]
        return CKD_PRESENT if truth.has_ckd else CKD_ABSENT

    def _stage(self, egfr: float) -> Label:
        return stage(egfr, split_stage_3=self.assessor.split_stage_3)

    def _shown(self, values: Mapping[str, Value], *, from_file: bool = False) -> Shown:
        names = list(dict.fromkeys(["age", "sex", *feature_names(self.config.features)]))
        if self.config.task == Task.PROGRESSION:
            names.append("drug_started")
        elif not from_file:
            names.append("days_observed")
        return {name: values[name] for name in names}

    def _filled(self, shown: Shown) -> tuple[Shown, list[str]]:
        return (shown, []) if self.display_imputer is None else self.display_imputer.fill(shown)

    def _deferral(
        self, shown: Features, label: Label, estimates: Mapping[str, float]
    ) -> JsonObject:
        assessment = self.assessor(shown)
        reasons = self.rule.reasons(assessment.visible_reasons, assessment.p_misclass)
        if self.rule.kind == "margin":
            reasons = self._margin(assessment, label, estimates)
        return {
            "should_abstain": bool(reasons),
            "abstain_reasons": reasons,
            "deferral_kind": deferral_kind(reasons),
            "p_misclass": assessment.p_misclass,
            "label_depends_on_prior": assessment.depends_on_prior(self.rule.risk),
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

    def _sex_in_truth(self, estimates: Mapping[str, float]) -> JsonObject:
        """Say of a stage whether it is another for women than for men and no sex is known."""
        if self.config.task != Task.STAGING:
            return {}
        return {"truth_depends_on_sex": len(set(map(self._stage, estimates.values()))) > 1}

    def _label_egfr(self, values: Mapping[str, Value], estimates: Mapping[str, float]) -> float:
        """Return the estimate whose stage is the label; of two that differ, the more probable."""
        if len({int(category_index(value)) for value in estimates.values()}) == 1:
            return next(iter(estimates.values()))
        shown = {"sc": values["sc"], "age": values["age"], "sex": None}
        assessment = Assessor(Task.STAGING, split_stage_3=True)(shown)
        return max(
            estimates.values(),
            key=lambda value: assessment.probabilities[stage(value, split_stage_3=True)],
        )


def _with_visits(shown: Shown, patient: SyntheticPatient) -> Shown:
    assert patient.course is not None
    age, sex = patient.visible["age"], patient.visible["sex"]
    if age is None or sex is None:
        raise AssertionError("a course needs age and sex, which its estimates are made from")
    del shown["sc"]  # the visits show it, with its day
    course = patient.course
    return shown | course_features(course.days, course.creatinine, age=age, female=bool(sex))


def _estimates(values: Mapping[str, Value], sex: Value) -> dict[str, float]:
    """Return the estimate by sex: of the sex that is known, else of both; none without values."""
    creatinine, age = usable(values, "sc"), usable(values, "age")
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
