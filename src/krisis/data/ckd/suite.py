"""The chronic kidney disease suite: the embedded cohort, a file of real patients, or both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from krisis.data.base import (
    BaseDataSuite,
    FeatureSet,
    PatientRecord,
    Rule,
    SuiteConfig,
    Task,
    options_from,
)
from krisis.data.ckd.cohort import SyntheticPatient, draw_cohort
from krisis.data.ckd.courses import Course, draw_courses
from krisis.data.ckd.deferral import Deferral
from krisis.data.ckd.imputation import METHODS, ImputeMethod, Imputer
from krisis.data.ckd.labs import is_lab_table, read_lab_courses, read_labs
from krisis.data.ckd.questions import task_of
from krisis.data.ckd.reading import (
    KidneyRule,
    Question,
    guideline_probabilities,
    ideal_probabilities,
)
from krisis.data.ckd.records import Real, RecordMaker
from krisis.data.ckd.schema import Value
from krisis.data.ckd.uci import (
    LICENCE,
    SOURCE,
    PatientFile,
    UciPatient,
    is_uci_table,
    read_uci,
    refuse_single_class,
)
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject

SEX_CHOICES = ("unknown", "engineered")
# The suite of the first version, whole: `krisis run ckd --preset v0.1 --data-path FILE`.
PRESETS: Mapping[str, JsonObject] = {"v0.1": {"sex": "engineered", "impute": "median"}}
_HELD_OUT, _TRAINING = 0, 1
_CROSS_SECTIONAL_ONLY = (Task.ALBUMINURIA, Task.RISK)


def _tasks(*names: str) -> dict[str, Callable[..., Task]]:
    return {name: partial(task_of, name) for name in names}


class CKDSuite(BaseDataSuite):
    """Chronic kidney disease: is it there, in which stage, how has it developed.

    Without ``data_path``, ``config.n_synthetic`` patients of the embedded cohort are evaluated;
    with it, the held-out share of the file, and synthetic patients as well where ``n_synthetic`` is
    chosen: results score the two apart. ``deferral`` states ``margin_ml_min`` of the seeds' flags.
    ``measured_gfr`` asks about the measured rate, not the
    usual eGFR. ``preset`` "v0.1" is the suite of the first version.

    >>> suite = CKDSuite(SuiteConfig(n_synthetic=5))
    >>> [record.label for record in suite.load()]
    [1, 1, 0, 0, 0]
    """

    name = "ckd"
    tasks: Mapping[str, Task | Callable[..., Task]] = _tasks(
        Task.DETECTION,
        Task.STAGING,
        Task.PROGRESSION,
        Task.RISK,
        Task.ALBUMINURIA,
    )
    feature_sets = tuple(FeatureSet)
    baselines: tuple[str, ...] = ("always-abstain", "majority", "logistic", "guideline")
    option_words: Mapping[str, str] = {
        "data_path": "Your own patients: UCI columns, or a laboratory table",
        "sex": "Of a file without sex: unknown, or engineered to draw one",
        "sex_column": "The column of the file that holds sex",
        "split_stage_3": "Ask for G3a and G3b, not for stage 3",
        "impute": f"How missing values are filled: {', '.join(METHODS)}",
        "deferral": "margin_ml_min: distance to a limit that is flagged, 3 unless given",
        "measured_gfr": "Ask about the measured rate, not the usual eGFR",
        "preset": "v0.1: the suite of the first version",
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
        deferral: Deferral | JsonMapping | None = None,
        measured_gfr: bool = False,
        preset: str | None = None,
    ) -> None:
        super().__init__(config)
        if preset is not None and preset not in PRESETS:
            raise UnknownName.among("preset", str(preset), list(PRESETS))
        chosen = PRESETS[preset] if preset else {}
        self.preset = preset
        self.data_path = None if data_path is None else Path(data_path)
        if preset and self.data_path is None:
            raise InvalidValue(
                f"the preset {preset!r} is made of the UCI file and synthetic patients; name the "
                "file: --data-path FILE"
            )
        if preset and self.config.task == Task.PROGRESSION:
            self.notice = (
                f"{self.data_path} has one visit per patient, so progression under the preset "
                f"{preset} is asked about synthetic patients alone"
            )
            self.data_path, chosen = None, {}
        self.sex, self.sex_column = chosen.get("sex", sex), sex_column
        self.split_stage_3, self.impute = split_stage_3, chosen.get("impute", impute)
        if self.sex not in SEX_CHOICES:
            raise UnknownName.among("treatment of sex", str(self.sex), SEX_CHOICES)
        if self.impute not in METHODS:
            raise UnknownName.among("imputation", str(self.impute), METHODS)
        self.deferral = options_from(Deferral, deferral, "deferral")
        self.measured_gfr = measured_gfr
        if self.data_path is None:
            self.baselines = ("ideal", *type(self).baselines)
        self._check_choices()

    def load(self) -> list[PatientRecord]:
        """Return the held-out patients of the file, those of the embedded cohort, or both."""
        if self.data_path is None:
            return self._synthetic_records(_HELD_OUT)
        self.notice = self._account()
        return [*self._real.held_out, *self._synthetic_beside(_HELD_OUT)]

    def training_records(self) -> list[PatientRecord]:
        """Return patients to fit on: the training share of the file, more of the cohort, both."""
        return list(self._training)

    @cached_property
    def _training(self) -> list[PatientRecord]:
        if self.data_path is None:
            return self._synthetic_records(_TRAINING)
        return [*self._real.training, *self._synthetic_beside(_TRAINING)]

    def _synthetic_beside(self, stream: int) -> list[PatientRecord]:
        """Return synthetic patients next to those of a file, where they were asked for."""
        is_v01 = self.preset is not None and self.config.n_synthetic is None
        return self._synthetic_records(stream) if is_v01 or self.config.n_synthetic else []

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the guideline reader and, on the embedded cohort, the one that knows its model."""
        question, costs, obeys = self._question, self.task.costs, self.config.by_policy
        rules = {"guideline": KidneyRule(question, guideline_probabilities, costs, by_rules=True)}
        if self.data_path is None:
            rules["ideal"] = KidneyRule(question, ideal_probabilities, costs, by_rules=obeys)
        return rules

    @property
    def _question(self) -> Question:
        return Question(self.task_name, self.split_stage_3, self.measured_gfr)

    def describe(self) -> JsonObject:
        """Say where the cases come from, how they were made and how many ask to be deferred."""
        records = self.records()
        reasons = Counter(name for r in records for name in r.metadata["abstain_reasons"])
        rules = Counter(name for r in records for name in r.metadata["rules"])
        return {
            **super().describe(),
            **({} if self.data_path is None else {"account": self._account()}),
            "n_real": sum(not r.metadata["synthetic"] for r in records),
            "n_synthetic": sum(r.metadata["synthetic"] for r in records),
            "labels": dict(sorted(Counter(str(r.label) for r in records).items())),
            "n_should_abstain": sum(r.metadata["should_abstain"] for r in records),
            "abstain_reasons": dict(sorted(reasons.items())),
            "rules": dict(sorted(rules.items())),
            "n_truth_depends_on_sex": _n_truth_depends_on_sex(records),
            "deferral": {
                "margin_ml_min": self.deferral.margin_ml_min,
                "words": self._deferral_words(),
            },
            "split_stage_3": self.split_stage_3,
            "target": "measured GFR" if self.measured_gfr else "usual eGFR by creatinine",
            "sex": self.sex if self.sex_column is None else f"column {self.sex_column}",
            "impute": self.impute,
            "preset": self.preset,
            "provenance": self._provenances(),
        }

    def _deferral_words(self) -> str:
        """Say when a case should be deferred, of the cohort and of a file."""
        deferral = self.deferral
        uncertain = (
            "its best answer is expected to cost as much as a deferral or more, given all that is "
            "shown"
        )
        if self.config.by_policy:
            uncertain += ", or if a rule of the policy says so"
        by_sex = "" if self.preset else ", sex is not stated and decides the stage"
        flagged = (
            "the change is 15 to 25 %, or fewer than two estimates are shown"
            if self.config.task == Task.PROGRESSION
            else f"the eGFR is within {deferral.margin_ml_min:g} mL/min/1.73 m² of a limit of the "
            f"stages{by_sex}, or the diagnosis contradicts the stage"
        )
        if self.data_path is None and self.preset is None:
            return f"A case should be deferred if {uncertain}."
        if self.task.due_by == "label":
            return f"A case should be deferred if {flagged}."
        beside = (
            f" A synthetic case should be deferred if {uncertain}."
            if self._synthetic_beside(_HELD_OUT)
            else ""
        )
        return f"A case of the file is flagged, as a checklist, if {flagged}.{beside}"

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
        task, path = self.config.task, self.data_path
        if self.measured_gfr and task in (Task.PROGRESSION, Task.ALBUMINURIA):
            raise InvalidValue(
                f"measured_gfr=True asks about the measured rate, which {task} does not; leave it "
                "out"
            )
        if path is None:
            if self.config.n_synthetic == 0:
                raise InvalidValue(
                    "n_synthetic is 0 and there is no data_path, so there is no case; set "
                    "n_synthetic to 1 or more"
                )
            return
        if task in _CROSS_SECTIONAL_ONLY:
            raise InvalidValue(
                f"the truth of {task} is not in {path}; leave the file out, or ask for detection, "
                "staging or progression"
            )
        if self.measured_gfr:
            raise InvalidValue(
                f"measured_gfr=True needs the measured rate, which {path} does not hold; leave "
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
        verb = "has" if n_by_sex == 1 else "have"
        by_sex = (
            f"; {n_by_sex} evaluated {verb} a stage that depends on their sex, which is not "
            "stated, and should be deferred"
        )
        return (
            f"{self._file.path.name}: {real.n_read} patients read;{left} {len(real.held_out)} held "
            f"out and evaluated; {len(real.training)} kept for fitting baselines (test_size "
            f"{self.config.held_out_share:g}){by_sex if n_by_sex else ''}"
        )

    def _provenances(self) -> list[JsonObject]:
        embedded: JsonObject = {
            "source": "embedded cohort of krisis, drawn from its seed",
            "licence": "Apache-2.0",
            "n_patients": self.config.synthetic_count,
        }
        if self.data_path is None:
            return [embedded]
        file, real = self._file, self._real
        is_uci = isinstance(file.patients[0], UciPatient)
        of_file: JsonObject = {
            "source": f"{SOURCE}, or a file in its columns" if is_uci else "data of the user",
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
        return [of_file, *([embedded] if self._synthetic_beside(_HELD_OUT) else [])]

    @cached_property
    def _file(self) -> PatientFile[Any]:
        assert self.data_path is not None
        if self.config.task == Task.PROGRESSION:
            if not is_lab_table(self.data_path) and is_uci_table(self.data_path):
                raise InvalidFile(
                    f"{self.data_path} has one visit per patient, and progression needs several; "
                    "leave the file out, or type --preset v0.1"
                )
            return read_lab_courses(self.data_path)
        if self.config.task == Task.STAGING and is_lab_table(self.data_path):
            return read_labs(self.data_path)
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
        left_out = self._file.left_out.copy()
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

    def _split(self) -> tuple[list[Real], list[Real]]:
        """Split the file by the seed and the number of rows alone: no label is looked at."""
        patients, share = self._file.patients, self.config.held_out_share
        n_held_out = min(max(1, round(len(patients) * share)), len(patients) - 1)
        order = np.random.default_rng(self.config.seed).permutation(len(patients))
        # Files come sorted by diagnosis: in drawn order, neither a limit nor a batch follows it.
        held_out, training = order[:n_held_out], order[n_held_out:]
        return [patients[index] for index in training], [patients[index] for index in held_out]

    def _synthetic_records(self, stream: int) -> list[PatientRecord]:
        maker = self._maker(None)
        return maker.synthetic(self._cohort(stream), training=stream == _TRAINING)

    def _cohort(self, stream: int) -> Sequence[SyntheticPatient | Course]:
        n, share = self.config.synthetic_count, self.config.held_out_share
        n = n if stream == _HELD_OUT else max(1, round(n * (1 - share) / share))
        if self.config.task == Task.PROGRESSION:
            return draw_courses(n, seed=self.config.seed, stream=stream)
        return draw_cohort(n, seed=self.config.seed, stream=stream, measured_gfr=self.measured_gfr)

    def _maker(self, training: Sequence[Real] | None) -> RecordMaker:
        """Return the maker of records; what fills gaps is learnt from training patients only."""
        imputer = None
        if self.impute != "none":
            rows: list[Mapping[str, Value]] = [
                patient.values for patient in training or () if isinstance(patient, UciPatient)
            ]
            if training is None:
                rows = [patient.visible for patient in self._cohort(_TRAINING)]
            imputer = Imputer.fit(rows)
        return RecordMaker(
            self.config,
            self._question,
            self.deferral,
            self.task.costs,
            self.sex,
            imputer,
            by_flags=self.preset is not None,
        )


def _n_truth_depends_on_sex(records: Iterable[PatientRecord]) -> int:
    return sum(record.metadata.get("truth_depends_on_sex", False) for record in records)


@dataclass(frozen=True, slots=True)
class _RealRecords:
    """The records of a file, and the patients whose truth cannot be known, by why."""

    held_out: list[PatientRecord]
    training: list[PatientRecord]
    left_out: Counter[str]
    n_read: int
