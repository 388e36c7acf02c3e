"""The chronic kidney disease suite: the embedded cohort by default, the UCI file where given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

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
from krisis.data.ckd.cohort import Draws, draw_cohort, draw_people
from krisis.data.ckd.deferral import DeferralKind, DeferralRule
from krisis.data.ckd.imputation import METHODS, ImputeMethod, Imputer
from krisis.data.ckd.progression import draw_courses
from krisis.data.ckd.records import RecordMaker, adults_with_context
from krisis.data.ckd.uci import LICENCE, SOURCE, UciFile, UciPatient, read_uci, refuse_single_class
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject

SEX_CHOICES = ("unknown", "engineered")
_HELD_OUT, _TRAINING = 0, 1


class CKDSuite(BaseDataSuite):
    """Detection, staging and progression of chronic kidney disease.

    Without ``data_path``, ``config.n_synthetic`` patients of the embedded cohort are evaluated.
    With it, the held-out share of the file comes first and the synthetic patients follow, flagged
    ``synthetic``. ``deferral`` is the name of a rule, a `DeferralRule`,
    or its fields as a configuration file states them.

    >>> suite = CKDSuite(SuiteConfig(n_synthetic=5))
    >>> [record.label for record in suite.load()]
    [0, 1, 0, 1, 0]
    """

    name = "ckd"
    tasks: Mapping[str, Task | Callable[..., Task]] = {
        Task.DETECTION: questions.detection(),
        Task.STAGING: lambda suite: questions.staging(split_stage_3=suite.split_stage_3),
        Task.PROGRESSION: questions.progression(),
    }
    feature_sets = tuple(FeatureSet)
    baselines = ("always-answer", "always-abstain", "majority", "logistic", "guideline")

    def __init__(
        self,
        config: SuiteConfig | None = None,
        data_path: str | Path | None = None,
        *,
        sex: str = "unknown",
        sex_column: str | None = None,
        split_stage_3: bool = False,
        impute: ImputeMethod = "none",
        deferral: DeferralKind | DeferralRule | JsonMapping = "measurement_error",
    ) -> None:
        super().__init__(config)
        if sex not in SEX_CHOICES:
            raise UnknownName.among("treatment of sex", str(sex), SEX_CHOICES)
        if impute not in METHODS:
            raise UnknownName.among("imputation", str(impute), METHODS)
        self.data_path = None if data_path is None else Path(data_path)
        if sex_column is not None and self.data_path is None:
            raise InvalidValue(
                f"sex_column={sex_column!r} names a column of a file, but no data_path is given"
            )
        self.sex, self.sex_column = sex, sex_column
        self.split_stage_3, self.impute = split_stage_3, impute
        self.rule = DeferralRule.of(deferral)
        self._check_there_are_cases()

    def load(self) -> list[PatientRecord]:
        """Return the held-out patients of the file, then the synthetic ones."""
        return list(self._records)

    def training_records(self) -> list[PatientRecord]:
        """Return patients to fit on: the training share of the file, else more of the cohort."""
        records = self._real_records if self._uses_file else self._synthetic_records
        return records(_TRAINING)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the guideline reader, and the one that knows the model of the cohort."""
        guideline = Assessor(self.config.task, self.split_stage_3)
        return {
            "guideline": KidneyRule(guideline),
            "bayes-optimal": KidneyRule(replace(guideline, exact=True)),
        }

    def describe(self) -> JsonObject:
        """Say where the cases come from, how they were made and how many ask to be deferred."""
        records = self.records()
        reasons = Counter(name for r in records for name in r.metadata["abstain_reasons"])
        return {
            **super().describe(),
            "n_real": sum(not r.metadata["synthetic"] for r in records),
            "n_synthetic": sum(r.metadata["synthetic"] for r in records),
            "labels": dict(sorted(Counter(str(r.label) for r in records).items())),
            "n_should_abstain": sum(r.metadata["should_abstain"] for r in records),
            "abstain_reasons": dict(sorted(reasons.items())),
            "deferral": {
                "rule": self.rule.kind,
                "risk": self.rule.risk,
                "margin_ml_min": self.rule.margin_ml_min,
            },
            "split_stage_3": self.split_stage_3,
            "sex": self.sex if self.sex_column is None else f"column {self.sex_column}",
            "impute": self.impute,
            "provenance": self._provenance(),
        }

    @property
    def _uses_file(self) -> bool:
        return self.data_path is not None and self.config.task != Task.PROGRESSION

    def _check_there_are_cases(self) -> None:
        if self.config.n_synthetic == 0 and not self._uses_file:
            why = "one visit per patient" if self.data_path else "no data_path"
            raise InvalidValue(
                f"n_synthetic is 0 and there is {why}, so there is no case for "
                f"{self.config.task}; set n_synthetic to 1 or more"
            )

    def _provenance(self) -> list[JsonObject]:
        sources: list[JsonObject] = []
        if self._uses_file:
            file = self._file
            sources.append(
                {
                    "source": SOURCE,
                    "licence": LICENCE,
                    "file": file.path.name,
                    "sha256": file.sha256,
                    "n_patients": len(file.patients),
                    "n_held_out": len(self._split()[1]),
                    "anomalies_normalised": dict(sorted(file.anomalies.items())),
                    "n_implausible_values": len(file.implausible),
                }
            )
        if self.config.n_synthetic:
            sources.append(
                {
                    "source": "embedded cohort of krisis, drawn from its seed, fitted to no data",
                    "licence": "Apache-2.0",
                    "n_patients": self.config.n_synthetic,
                }
            )
        return sources

    @cached_property
    def _records(self) -> list[PatientRecord]:
        return [*self._real_records(_HELD_OUT), *self._synthetic_records(_HELD_OUT)]

    @cached_property
    def _file(self) -> UciFile:
        assert self.data_path is not None
        found = read_uci(self.data_path, sex_column=self.sex_column)
        if self.config.task == Task.DETECTION:
            refuse_single_class(found)
        return found

    def _split(self) -> tuple[list[UciPatient], list[UciPatient]]:
        """Split the file by the seed and the number of rows alone: no label is looked at."""
        patients = self._file.patients
        n_held_out = min(max(1, round(len(patients) * self.config.test_size)), len(patients) - 1)
        order = np.random.default_rng(self.config.seed).permutation(len(patients))
        # Files come sorted by diagnosis: in drawn order, neither a limit nor a batch follows it.
        held_out, training = order[:n_held_out], order[n_held_out:]
        return [patients[index] for index in training], [patients[index] for index in held_out]

    def _real_records(self, stream: int) -> list[PatientRecord]:
        if not self._uses_file:
            return []
        training, held_out = self._split()
        maker, engineer = self._maker(training), _fit(training, "median")
        chosen = training if stream == _TRAINING else held_out
        return [maker.real(patient, engineer) for patient in chosen]

    def _synthetic_records(self, stream: int) -> list[PatientRecord]:
        n_patients = self._n_synthetic(stream)
        if n_patients == 0:
            return []
        seed = self.config.seed
        patients = draw_cohort(n_patients, seed=seed, stream=stream)
        maker = self._maker(None)
        if self.config.task != Task.PROGRESSION:
            return [maker.synthetic(patient, stream=stream) for patient in patients]
        draws = Draws(seed, stream, n_patients)
        people = draw_people(draws)
        return [
            maker.synthetic(adults_with_context(patient, people), stream=stream, course=course)
            for patient, course in zip(patients, draw_courses(people, draws), strict=True)
        ]

    def _n_synthetic(self, stream: int) -> int:
        n, share = self.config.n_synthetic, self.config.test_size
        return n if stream == _HELD_OUT else max(1, round(n * (1 - share) / share))

    def _maker(self, training: Sequence[UciPatient] | None) -> RecordMaker:
        """Return the maker of records; what fills gaps is learnt from training patients only."""
        imputer = None
        if self.impute != "none" and training is not None:
            imputer = _fit(training, self.impute)
        elif self.impute != "none":
            n_training = self._n_synthetic(_TRAINING)
            cohort = draw_cohort(n_training, seed=self.config.seed, stream=_TRAINING)
            imputer = Imputer.fit([patient.visible for patient in cohort], self.impute)
        return RecordMaker(self.config, self.rule, self.split_stage_3, self.sex, imputer)


def _fit(training: Sequence[UciPatient], method: ImputeMethod) -> Imputer:
    return Imputer.fit([patient.values for patient in training], method)
