"""The chronic kidney disease suite: the embedded cohort by default, the UCI file where given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np

from krisis.data.base import (
    BaseDataSuite,
    FeatureSet,
    PatientRecord,
    Rule,
    SuiteConfig,
    Task,
)
from krisis.data.ckd import questions
from krisis.data.ckd.assessment import Assessor, KidneyRule
from krisis.data.ckd.cohort import SyntheticPatient, draw_cohort
from krisis.data.ckd.deferral import DeferralRule, RuleName
from krisis.data.ckd.imputation import METHODS, ImputeMethod, Imputer
from krisis.data.ckd.records import RecordMaker
from krisis.data.ckd.schema import Value
from krisis.data.ckd.uci import LICENCE, SOURCE, UciFile, UciPatient, read_uci, refuse_single_class
from krisis.data.ckd.visits import VisitFile, VisitPatient, read_visits
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject

SEX_CHOICES = ("unknown", "engineered")
_HELD_OUT, _TRAINING = 0, 1
Patient: TypeAlias = UciPatient | VisitPatient


class CKDSuite(BaseDataSuite):
    """Detection, staging, albuminuria, risk and progression of chronic kidney disease.

    Without ``data_path``, ``config.n_synthetic`` patients of the embedded cohort are evaluated;
    with it, the held-out share of the file and nobody else. ``deferral`` is the name of a rule, a
    `DeferralRule`, or its fields as a configuration file states them, among them ``risk``, the
    price of deferring. ``equation_error`` asks about the measured rate, not the usual eGFR.

    >>> suite = CKDSuite(SuiteConfig(n_synthetic=5))
    >>> [record.label for record in suite.load()]
    [0, 1, 0, 1, 0]
    """

    name = "ckd"
    tasks: Mapping[str, Task | Callable[..., Task]] = {
        Task.DETECTION: questions.detection,
        Task.STAGING: questions.staging,
        Task.PROGRESSION: questions.progression,
        Task.ALBUMINURIA: questions.albuminuria,
        Task.RISK: questions.risk,
    }
    feature_sets = tuple(FeatureSet)
    baselines = ("always-answer", "always-abstain", "majority", "logistic", "guideline")
    option_words: Mapping[str, str] = {
        "data_path": "A file of your own patients in the columns of UCI, or of visits",
        "sex": "Of a file without sex: unknown, or engineered to draw one",
        "sex_column": "The column of the file that holds sex",
        "split_stage_3": "Ask for G3a and G3b, not for stage 3",
        "impute": f"How missing values are filled: {', '.join(METHODS)}",
        "deferral": "Price of deferring, in prices of a wrong answer; 0.2 unless given",
        "equation_error": "Ask about the measured rate, not the usual eGFR",
    }

    def __init__(
        self,
        config: SuiteConfig | None = None,
        data_path: str | Path | None = None,
        *,
        sex: str = "unknown",
        sex_column: str | None = None,
        split_stage_3: bool = False,
        impute: ImputeMethod = "none",
        deferral: RuleName | DeferralRule | JsonMapping = "measurement_error",
        equation_error: bool = False,
    ) -> None:
        super().__init__(config)
        if sex not in SEX_CHOICES:
            raise UnknownName.among("treatment of sex", str(sex), SEX_CHOICES)
        if impute not in METHODS:
            raise UnknownName.among("imputation", str(impute), METHODS)
        self.data_path = None if data_path is None else Path(data_path)
        self.sex, self.sex_column = sex, sex_column
        self.split_stage_3, self.impute = split_stage_3, impute
        self.rule = DeferralRule.of(deferral)
        self.equation_error = equation_error
        self._check_choices()

    def load(self) -> list[PatientRecord]:
        """Return the held-out patients of the file, else those of the embedded cohort."""
        if self.data_path is None:
            return self._synthetic_records(_HELD_OUT)
        self.notice = self._account()
        return list(self._real.held_out)

    def training_records(self) -> list[PatientRecord]:
        """Return patients to fit on: the training share of the file, else more of the cohort."""
        if self.data_path is not None:
            return list(self._real.training)
        return self._synthetic_records(_TRAINING)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the guideline reader and, on the embedded cohort, the one that knows its model."""
        guideline = replace(self._assessor, exact=False)
        rules = {"guideline": KidneyRule(guideline, self.rule.risk)}
        if self.data_path is None:
            rules["bayes-optimal"] = KidneyRule(self._assessor, self.rule.risk)
        return rules

    @property
    def _assessor(self) -> Assessor:
        return Assessor(
            self.config.task, self.split_stage_3, exact=True, equation_error=self.equation_error
        )

    def describe(self) -> JsonObject:
        """Say where the cases come from, how they were made and how many ask to be deferred."""
        records = self.records()
        reasons = Counter(name for r in records for name in r.metadata["abstain_reasons"])
        kinds = Counter(r.metadata["deferral_kind"] for r in records)
        return {
            **super().describe(),
            **({} if self.data_path is None else {"account": self._account()}),
            "n_real": sum(not r.metadata["synthetic"] for r in records),
            "n_synthetic": sum(r.metadata["synthetic"] for r in records),
            "labels": dict(sorted(Counter(str(r.label) for r in records).items())),
            "n_should_abstain": sum(r.metadata["should_abstain"] for r in records),
            "abstain_reasons": dict(sorted(reasons.items())),
            "deferral_kinds": {kind: kinds[kind] for kind in ("uncertain", "rule")},
            "n_label_depends_on_prior": sum(r.metadata["label_depends_on_prior"] for r in records),
            "n_truth_depends_on_sex": _n_truth_depends_on_sex(records),
            "deferral": self._deferral(),
            "split_stage_3": self.split_stage_3,
            "target": "measured GFR" if self.equation_error else "usual eGFR by creatinine",
            "sex": self.sex if self.sex_column is None else f"column {self.sex_column}",
            "impute": self.impute,
            "provenance": [self._provenance()],
        }

    def _check_sex(self) -> None:
        """Refuse a treatment of sex that the patients have no use for."""
        if self.data_path is None and self.sex_column is not None:
            raise InvalidValue(
                f"sex_column={self.sex_column!r} names a column of a file, but no data_path is "
                "given; give the file or leave sex_column out"
            )
        if self.data_path is None and self.sex == "engineered":
            raise InvalidValue(
                "sex='engineered' draws a sex for patients of a file, and those of the embedded "
                "cohort have theirs; leave it out or give data_path"
            )
        if self.config.task == Task.PROGRESSION and (self.sex != "unknown" or self.sex_column):
            given = f"sex_column={self.sex_column!r}" if self.sex_column else f"sex={self.sex!r}"
            raise InvalidValue(
                f"{given} is not offered for a file of visits, which states sex in its column sex; "
                "leave it out"
            )

    def _check_choices(self) -> None:
        self._check_sex()
        task, path, n_synthetic = self.config.task, self.data_path, self.config.n_synthetic
        if path is None:
            if n_synthetic == 0:
                raise InvalidValue(
                    "n_synthetic is 0 and there is no data_path, so there is no case; set "
                    "n_synthetic to 1 or more"
                )
            if self.equation_error and task in (Task.PROGRESSION, Task.ALBUMINURIA):
                raise InvalidValue(
                    f"equation_error=True asks about the measured rate, which {task} does not; "
                    "leave it out"
                )
            return
        if self.config.has_chosen_n_synthetic and n_synthetic:
            raise InvalidValue(
                f"n_synthetic={n_synthetic} asks for synthetic patients beside those of {path}, "
                "and a figure over both has no meaning; run them apart, once with the file and "
                "once without"
            )
        if task in (Task.ALBUMINURIA, Task.RISK):
            raise InvalidValue(
                f"{path} can hold a dipstick but no albumin-creatinine ratio, which is the truth "
                f"of {task}; leave the file out, or ask for detection, staging or progression"
            )
        if self.equation_error:
            raise InvalidValue(
                f"equation_error=True needs the measured rate, which {path} does not hold; leave "
                "it out"
            )
        if task == Task.PROGRESSION and self.impute != "none":
            raise InvalidValue(f"impute={self.impute!r} is not offered for visits; leave it out")

    def _account(self) -> str:
        """Say how many patients were read, left out and evaluated."""
        real = self._real
        why = "; ".join(f"{reason}: {n}" for reason, n in sorted(real.left_out.items()))
        left = f" {real.left_out.total()} left out, their truth unknown ({why});" if why else ""
        n_by_sex = _n_truth_depends_on_sex(real.held_out)
        due = ": they are to be deferred" if self.rule.kind == "measurement_error" else ""
        verb = "has" if n_by_sex == 1 else "have"
        by_sex = (
            f"; {n_by_sex} evaluated {verb} a stage that depends on their sex, which is not "
            f"stated{due}"
        )
        return (
            f"{self._file.path.name}: {real.n_read} patients read;{left} {len(real.held_out)} held "
            f"out and evaluated; {len(real.training)} kept for fitting baselines (test_size "
            f"{self.config.test_size:g}){by_sex if n_by_sex else ''}"
        )

    def _deferral(self) -> JsonObject:
        """Return the rule with its figure; a course has no margin in mL/min."""
        found = self.rule.describe()
        if self.config.task == Task.PROGRESSION:
            found.pop("margin_ml_min", None)
        return found

    def _provenance(self) -> JsonObject:
        if self.data_path is None:
            return {
                "source": "embedded cohort of krisis, drawn from its seed, fitted to no data",
                "licence": "Apache-2.0",
                "n_patients": self.config.n_synthetic,
            }
        file, real = self._file, self._real
        is_uci = isinstance(file, UciFile)
        return {
            "source": f"{SOURCE}, or a file in its columns" if is_uci else "visits of the user",
            "licence": f"{LICENCE}, if it is that file" if is_uci else "that of the user's data",
            "file": file.path.name,
            "sha256": file.sha256,
            "n_patients": real.n_read,
            "n_held_out": len(real.held_out),
            "n_training": len(real.training),
            "left_out": dict(sorted(real.left_out.items())),
            "anomalies_normalised": dict(sorted(file.anomalies.items())),
            "n_implausible_values": len(file.implausible),
        }

    @cached_property
    def _file(self) -> UciFile | VisitFile:
        assert self.data_path is not None
        if self.config.task == Task.PROGRESSION:
            return read_visits(self.data_path)
        found = read_uci(self.data_path, sex_column=self.sex_column)
        if self.config.task == Task.DETECTION:
            refuse_single_class(found)
        return found

    @cached_property
    def _real(self) -> _RealRecords:
        training, held_out = self._split()
        maker = self._maker(training)
        made = [[maker.real(patient) for patient in share] for share in (held_out, training)]
        kept = [[record for record in share if record is not None] for share in made]
        left_out: Counter[str] = Counter()
        if isinstance(self._file, VisitFile):
            left_out += self._file.left_out
        n_without = sum(map(len, made)) - sum(map(len, kept))
        if n_without:
            left_out["no usable creatinine or age"] = n_without
        n_read = len(self._file.patients) + left_out.total() - n_without
        if not kept[0]:
            raise InvalidFile(
                f"{self._file.path} leaves nobody to evaluate: the truth of all held-out patients "
                "is unknown (no usable creatinine or age); give a larger file or test_size"
            )
        return _RealRecords(kept[0], kept[1], left_out, n_read)

    def _split(self) -> tuple[list[Patient], list[Patient]]:
        """Split the file by the seed and the number of rows alone: no label is looked at."""
        patients = self._file.patients
        n_held_out = min(max(1, round(len(patients) * self.config.test_size)), len(patients) - 1)
        order = np.random.default_rng(self.config.seed).permutation(len(patients))
        # Files come sorted by diagnosis: in drawn order, neither a limit nor a batch follows it.
        held_out, training = order[:n_held_out], order[n_held_out:]
        return [patients[index] for index in training], [patients[index] for index in held_out]

    def _synthetic_records(self, stream: int) -> list[PatientRecord]:
        maker = self._maker(None)
        return [maker.synthetic(patient, stream=stream) for patient in self._cohort(stream)]

    def _cohort(self, stream: int) -> list[SyntheticPatient]:
        n, share = self.config.n_synthetic, self.config.test_size
        return draw_cohort(
            n if stream == _HELD_OUT else max(1, round(n * (1 - share) / share)),
            seed=self.config.seed,
            stream=stream,
            with_visits=self.config.task == Task.PROGRESSION,
            equation_error=self.equation_error,
        )

    def _maker(self, training: Sequence[Patient] | None) -> RecordMaker:
        """Return the maker of records; what fills gaps is learnt from training patients only."""
        imputer = None
        if self.impute != "none":
            rows: list[Mapping[str, Value]] = [
                patient.values for patient in training or () if isinstance(patient, UciPatient)
            ]
            if training is None:
                rows = [patient.visible for patient in self._cohort(_TRAINING)]
            imputer = Imputer.fit(rows, self.impute)
        return RecordMaker(self.config, self.rule, self._assessor, self.sex, imputer)


def _n_truth_depends_on_sex(records: Iterable[PatientRecord]) -> int:
    return sum(record.metadata.get("truth_depends_on_sex", False) for record in records)


@dataclass(frozen=True, slots=True)
class _RealRecords:
    """The records of a file, and the patients whose truth cannot be known, by why."""

    held_out: list[PatientRecord]
    training: list[PatientRecord]
    left_out: Counter[str]
    n_read: int
