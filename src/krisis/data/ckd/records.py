"""Turn patients into records: what is shown, what is true, and whether the case asks to defer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np
from scipy.special import expit

from krisis.costs import Costs
from krisis.data.base import Features, Label, PatientRecord, SuiteConfig, Task, age_band
from krisis.data.ckd.cohort import SyntheticPatient, Truth
from krisis.data.ckd.courses import Course, course_features, course_label, in_window, shown_visits
from krisis.data.ckd.deferral import (
    Deferral,
    broken_rules,
    seed_flags,
    shown_estimate,
    shown_estimates,
)
from krisis.data.ckd.egfr import Array, category_index, printed_down, stage
from krisis.data.ckd.imputation import Imputer
from krisis.data.ckd.labs import LabPatient, VisitPatient
from krisis.data.ckd.reading import (
    CKD_ABSENT,
    CKD_PRESENT,
    HEAT_MAP,
    NOT_RAISED,
    RAISED,
    RISKS,
    Question,
    chances_of,
    ideal_probabilities,
)
from krisis.data.ckd.schema import Value, feature_names, usable
from krisis.data.ckd.uci import UciPatient
from krisis.json_values import JsonObject

Shown: TypeAlias = dict[str, Value]
Real: TypeAlias = UciPatient | VisitPatient | LabPatient


@dataclass(frozen=True, slots=True)
class RecordMaker:
    """The choices under which patients become records of one task."""

    config: SuiteConfig
    question: Question
    deferral: Deferral
    costs: Costs
    sex: str = "unknown"
    display_imputer: Imputer | None = None
    by_flags: bool = False

    def synthetic(
        self, patients: Sequence[SyntheticPatient | Course], *, training: bool
    ) -> list[PatientRecord]:
        """Return the records of patients of the embedded cohort; the truth is the latent state."""
        shown = [self._of_cohort(patient) for patient in patients]
        if training:
            return [self._synthetic(p, s, None) for p, s in zip(patients, shown, strict=True)]
        found = ideal_probabilities(self.question, shown)
        return [self._synthetic(*one) for one in zip(patients, shown, found, strict=True)]

    def _of_cohort(self, patient: SyntheticPatient | Course) -> Shown:
        if isinstance(patient, Course):
            age, sex = patient.visible["age"], patient.visible["sex"]
            visits = course_features(
                patient.days, patient.creatinine, age=float(age or 0), female=bool(sex)
            )
            return {**patient.visible, **visits}
        return self._shown(patient.visible)

    def _synthetic(
        self, patient: SyntheticPatient | Course, shown: Shown, found: Array | None
    ) -> PatientRecord:
        label = self._label(patient)
        features, imputed = self._filled(shown)
        metadata = {
            "synthetic": True,
            "source": "embedded",
            **_estimate_fields(features),
            **_truth_fields(patient),
            "imputed": imputed,
        }
        if found is not None:
            chances = chances_of(self.question, found)
            has_ckd = patient.truth.has_ckd if isinstance(patient, SyntheticPatient) else None
            flags = self._flags(features, has_ckd)
            rules = broken_rules(shown, self.question.task)
            uncertain = self.costs.is_due(self.costs.best(chances)[1])
            named = rules if self.config.by_policy else []
            reasons = [*(["category_uncertain"] if uncertain else []), *named]
            due = any(flags.values()) if self.by_flags else bool(reasons)
            metadata |= {
                "answer_probabilities": {str(a): chance for a, chance in chances.items()},
                "p_misclass": round(1.0 - max(chances.values()), 6),
                **self._due(due, flags, reasons),
                "rules": rules,
                **flags,
            }
        name = f"embedded-{self.config.seed}-{'train-' * (found is None)}{patient.number}"
        return PatientRecord(features, label, metadata, name)

    def real(self, patient: Real) -> PatientRecord | None:
        """Return the record of a patient of the file, or None where the truth cannot be known."""
        if isinstance(patient, VisitPatient):
            return self._real_course(patient)
        if isinstance(patient, LabPatient):
            return self._laboratory(patient)
        sex, sex_source = self._sex(patient)
        shown = self._shown({**patient.values, "sex": sex}, from_file=True)
        features, imputed = self._filled(shown)
        estimate = shown_estimate(features)
        if self.question.task == Task.STAGING and estimate is None:
            return None
        label: Label = CKD_PRESENT if patient.has_ckd else CKD_ABSENT
        if self.question.task == Task.STAGING and estimate is not None:
            label = self._stage(estimate)
        return self._from_file(
            features, label, patient.has_ckd, f"uci-{patient.patient_id}", imputed, sex_source
        )

    def _laboratory(self, patient: LabPatient) -> PatientRecord | None:
        shown: Shown = {
            "age": patient.age,
            "sex": patient.female,
            "sc": patient.creatinine,
            **({} if patient.acr is None else {"acr": patient.acr}),
        }
        estimate = shown_estimate(shown)
        if estimate is None:
            return None
        label = self._stage(estimate)
        source = "unknown" if patient.female is None else "column"
        return self._from_file(shown, label, None, f"lab-{patient.patient_id}", [], source)

    def _real_course(self, patient: VisitPatient) -> PatientRecord | None:
        shown: Shown = {
            "age": patient.age,
            "sex": patient.female,
            "drug_started": None if patient.drug_day is None else 1,
            **({} if patient.drug_day is None else {"drug_day": patient.drug_day}),
            **course_features(
                patient.days, patient.creatinine, age=patient.age, female=bool(patient.female)
            ),
        }
        visits = shown_visits(shown)
        first, last = visits[0][2], visits[-1][2]
        if first is None or last is None:
            return None
        days, drug_day = visits[-1][0], patient.drug_day
        window = drug_day is not None and bool(in_window(drug_day, days))
        label = course_label(first, last, days, drug_window=window)
        return self._from_file(shown, label, None, f"visits-{patient.patient_id}", [], "column")

    def _from_file(
        self,
        features: Shown,
        label: Label,
        has_ckd: bool | None,
        name: str,
        imputed: list[str],
        sex_source: str,
    ) -> PatientRecord:
        flags = self._flags(features, has_ckd)
        estimates = shown_estimates(features)
        metadata = {
            "synthetic": False,
            "source": "file",
            **_estimate_fields(features),
            **{f"egfr_if_{n}": printed_down(v, 2) for n, v in estimates.items()},
            "sex_source": sex_source,
            "truth_depends_on_sex": len(set(map(self._stage, estimates.values()))) > 1,
            "imputed": imputed,
            **self._due(any(flags.values()), flags, []),
            "rules": broken_rules(features, self.question.task),
            **flags,
        }
        return PatientRecord(features, label, metadata, name)

    def _due(self, due: bool, flags: Mapping[str, bool], reasons: list[str]) -> JsonObject:
        """Return the deferral label; of a file and of the preset, the flags are the reasons."""
        named = (
            reasons if reasons and not self.by_flags else [f for f, is_so in flags.items() if is_so]
        )
        return {
            "should_abstain": due,
            "abstain_reasons": named if due else [],
            "deferral_kind": ("uncertain" if "category_uncertain" in named else "rule")
            if due
            else None,
        }

    def _flags(self, features: Features, has_ckd: bool | None) -> dict[str, bool]:
        return seed_flags(
            features,
            self.question.task,
            has_ckd,
            self.deferral.margin_ml_min,
            split_stage_3=self.question.split_stage_3,
            sex_decides=not self.by_flags,
        )

    def _label(self, patient: SyntheticPatient | Course) -> Label:
        return patient.label if isinstance(patient, Course) else self._label_of(patient.truth)

    def _label_of(self, truth: Truth) -> Label:
        raised = int(truth.acr_mg_g >= 30.0) + int(truth.acr_mg_g > 300.0)
        if self.question.task == Task.STAGING:
            return self._stage(truth.egfr)
        if self.question.task == Task.ALBUMINURIA:
            return RAISED if raised else NOT_RAISED
        if self.question.task == Task.RISK:
            return RISKS[HEAT_MAP[int(category_index(truth.egfr)), raised]]
        return CKD_PRESENT if truth.has_ckd else CKD_ABSENT

    def _stage(self, egfr: float) -> Label:
        return stage(egfr, split_stage_3=self.question.split_stage_3)

    def _shown(self, values: Mapping[str, Value], *, from_file: bool = False) -> Shown:
        names = list(dict.fromkeys(["age", "sex", *feature_names(self.config.features)]))
        return {name: values[name] for name in [*names, *([] if from_file else ["days_observed"])]}

    def _filled(self, shown: Shown) -> tuple[Shown, list[str]]:
        return (shown, []) if self.display_imputer is None else self.display_imputer.fill(shown)

    def _sex(self, patient: UciPatient) -> tuple[int | None, str]:
        if patient.female is not None:
            return patient.female, "column"
        if self.sex == "engineered":
            return _engineered_sex(patient, self.config.seed), "engineered"
        return None, "unknown"


def _truth_fields(patient: SyntheticPatient | Course) -> JsonObject:
    if isinstance(patient, Course):
        return {
            "first_level": patient.first_egfr,
            "last_level": patient.last_egfr,
            "rapid_progression": patient.rapid,
            "injured_at_visit": patient.injured_at,
            "recovery": patient.recovery,
        }
    return {
        "usual_egfr": patient.truth.egfr,
        "true_acr_mg_g": patient.truth.acr_mg_g,
        "persistent_haematuria": patient.truth.haematuria,
        "acute_injury": patient.acute,
    }


def _estimate_fields(features: Features) -> JsonObject:
    """Return eGFR and stage by the shown creatinine, both sexes averaged where none is shown."""
    sex, age = usable(features, "sex"), usable(features, "age")
    visits = [egfr for _, _, egfr in shown_visits(features) if egfr is not None]
    rate = shown_estimate(features)
    rate = visits[-1] if rate is None and visits else rate
    egfr = None if rate is None else printed_down(rate, 2)
    return {
        "egfr": egfr,
        "ckd_stage": None if egfr is None else stage(egfr),
        "sex": "unknown" if sex is None else ("female" if sex else "male"),
        "age_band": None if age is None else age_band(age),
    }


def _engineered_sex(patient: UciPatient, seed: int) -> int:
    """Draw a sex given creatinine: women are likelier at low values. An assumption, not a fact."""
    creatinine = usable(patient.values, "sc")
    chance = 0.5 if creatinine is None else float(np.clip(expit(4 * (0.95 - creatinine)), 0.2, 0.8))
    draw = np.random.default_rng([seed, crc32(patient.patient_id.encode())]).random()
    return int(draw < chance)
