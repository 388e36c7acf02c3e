"""The YAML file of a table suite: its keys, their types, and one sentence for what is wrong."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from krisis.answers import Label
from krisis.data.fhir.columns import PathColumn, Pick
from krisis.data.fhir.records import Per
from krisis.data.table.formats import (
    AboveDetection,
    BelowDetection,
    DateOrder,
    DecimalSign,
    NumberFormat,
    ThousandsSign,
)
from krisis.data.table.suite_file import Part, SecondUnitSpec, read_suite_file
from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, JsonValue

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LabelForm = Literal["letter", "text", "index from 0", "index from 1"]
# What krisis keeps about a record beside its groups.
_OWN_METADATA = ("synthetic", "row", "should_abstain", "abstain_reasons", "deferral_kind")
MissingCode = StrictInt | StrictFloat | StrictStr


def _answer_key(key: object) -> Label:
    """Return an answer as written; YAML reads a bare yes or no as true or false."""
    if isinstance(key, bool):
        return "yes" if key else "no"
    if isinstance(key, int) or (isinstance(key, str) and key.strip()):
        return key
    raise ValueError(f"an answer must be a whole number or a text, not {key!r}")


class Accepted(Part):
    """A finding of the leak guard that the author of the file accepts, and why."""

    accepted: StrictStr = Field(min_length=3)

    @model_validator(mode="before")
    @classmethod
    def _reason_given(cls, given: object) -> object:
        if isinstance(given, str):
            raise ValueError("say why it is accepted, as in {accepted: the reason}")
        return given


def _one_or_more(given: object) -> object:
    return given if isinstance(given, list) else [given]


class OfPath(Part):
    """What a FHIRPath gives: which of several values, in which unit, before which date."""

    fhirpath: StrictStr | None = None
    pick: Pick | None = None
    unit: StrictStr = ""
    before: StrictStr | None = None
    factor: dict[StrictStr, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    optional: StrictBool = False

    @property
    def path(self) -> PathColumn | None:
        """Return how the column is read from FHIR resources, where it is."""
        own = (self.pick, self.unit, self.before, self.factor, self.optional)
        return None if self.fhirpath is None else PathColumn(self.fhirpath, *own)


class PathSpec(OfPath):
    """A column of a FHIR source that is no feature: an index date, a label, a group."""

    shorthand = "fhirpath"

    @model_validator(mode="after")
    def _has_path(self) -> Self:
        if self.fhirpath is None:
            raise ValueError("fhirpath is missing")
        return self


def _known_encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError("unknown encoding; write utf-8, cp1252, latin-1 or utf-16") from None


class SourceSpec(Part):
    """Where the rows come from and how they are written.

    Files, a query on a database file, or FHIR resources.
    """

    shorthand = "files"

    files: Annotated[list[StrictStr], BeforeValidator(_one_or_more)] = Field(default_factory=list)
    database: StrictStr | None = None
    query: StrictStr | None = None
    fhir: StrictStr | None = None
    per: Per = "patient"
    index_date: PathSpec | None = None
    columns: dict[StrictStr, PathSpec] = Field(default_factory=dict)
    encoding: Annotated[StrictStr, AfterValidator(_known_encoding)] = "utf-8"
    decimal: DecimalSign = "."
    thousands: ThousandsSign | None = None
    dates: DateOrder | None = None
    missing: Annotated[list[MissingCode], BeforeValidator(_one_or_more)] = Field(
        default_factory=list
    )

    @model_validator(mode="after")
    def _formats_fit(self) -> Self:
        formats = {"encoding", "decimal", "thousands", "dates", "missing"} & self.model_fields_set
        if formats and self.fhir is not None:
            raise ValueError(f"{min(formats)} is for files and databases; FHIR has one format")
        if "encoding" in formats and self.database is not None:
            raise ValueError("encoding is for CSV files; a database states its own")
        if self.thousands == self.decimal:
            raise ValueError(f"decimal and thousands are both {self.decimal!r}")
        return self

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.fhir is not None:
            if self.files or self.database is not None or self.query is not None:
                raise ValueError("give files, a database or fhir, not two of them")
            return self
        if self.index_date is not None or self.columns or "per" in self.model_fields_set:
            raise ValueError("per, index_date and columns belong to {fhir: FOLDER}")
        if (self.database is None) != (self.query is None):
            raise ValueError("a database needs both keys: {database: FILE, query: SELECT …}")
        if bool(self.files) == (self.database is not None):
            raise ValueError("give a file, a list of files or {database: FILE, query: SELECT …}")
        return self

    def replaced(self, name: str) -> SourceSpec:
        """Return the same source with another file, or another folder of resources."""
        if self.fhir is not None:
            return self.model_copy(update={"fhir": name})
        if self.database is not None:
            return self.model_copy(update={"database": name})
        return self.model_copy(update={"files": [name]})


class Split(Part):
    """Which rows are evaluated and which may train baselines."""

    column: StrictStr | None = None
    use: JsonValue = None
    train: JsonValue = None
    test_size: float | None = Field(None, gt=0, lt=1, strict=True)
    by: Literal["cluster"] = "cluster"

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.column is None:
            if self.test_size is None or self.use is not None or self.train is not None:
                raise ValueError("give {column, use, train} or {test_size, by: cluster}")
        elif self.test_size is not None:
            raise ValueError("a column or a test_size decides the split, not both")
        elif self.use is None:
            raise ValueError("use is missing: the value of the column for rows to evaluate")
        return self


class LabelSpec(Part):
    """The truth: a column, or an SQL expression over the columns."""

    shorthand = "sql"

    column: StrictStr | None = None
    sql: StrictStr | None = None
    form: LabelForm | None = Field(None, alias="as")
    missing: Literal["leave out"] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.column is None) == (self.sql is None):
            raise ValueError("give {column: NAME} or an SQL expression")
        return self


class AnswerSpec(Part):
    """The allowed answers: the same for all rows, or options in columns of each row."""

    fixed: dict[Label, str] = Field(default_factory=dict)
    column: StrictStr | None = None
    columns: list[StrictStr] | None = Field(None, min_length=2, max_length=len(LETTERS))
    shuffle: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, given: object) -> object:
        if isinstance(given, list) and given and not any(isinstance(a, dict) for a in given):
            given = {answer: str(_answer_key(answer)) for answer in given}
        if not isinstance(given, Mapping):
            raise ValueError("must map every answer to its words, as in {0: no, 1: yes}")
        if set(given) & {"column", "columns"}:
            return cls._checked_keys(given)
        fixed = {_answer_key(key): _words(key, words) for key, words in given.items()}
        if len(fixed) < 2:
            raise ValueError("needs at least two answers")
        return {"fixed": fixed}

    @property
    def per_row(self) -> bool:
        """Say whether every row has options of its own."""
        return not self.fixed


def _words(key: object, words: object) -> str:
    if isinstance(words, bool):
        return "yes" if words else "no"
    if words is None or isinstance(words, Mapping | list):
        raise ValueError(f"the answer {key!r} needs words, not {words!r}")
    return str(words)


class ColumnOf(Part):
    """A text in a column of each row."""

    column: StrictStr


def _rules(given: object) -> object:
    return {"when": given} if isinstance(given, str) else given


class DeferralSpec(Part):
    """When a case should be deferred: by a label in a column, by rules with a reason each."""

    column: StrictStr | None = None
    values: list[JsonValue] | None = Field(None, alias="is", min_length=1)
    when: Annotated[dict[StrictStr, StrictStr], BeforeValidator(_rules)] = Field(
        default_factory=dict
    )
    hidden: Accepted | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.column is None and not self.when:
            raise ValueError("give {column: NAME} or {when: {REASON: SQL expression}}")
        if self.values is not None and self.column is None:
            raise ValueError("`is` lists the values of a column that mean: defer; name the column")
        return self


class UncertaintySpec(Part):
    """Measurement error near the limits of a value; see `category_uncertain`."""

    value: StrictStr
    cv: float = Field(gt=0, lt=1, strict=True)
    limits: list[Annotated[StrictInt | StrictFloat, Field(gt=0)]] = Field(min_length=1)
    risk: float = Field(0.2, gt=0, lt=1, strict=True)
    hidden: Accepted | None = None


def _answer_column(given: object) -> object:
    return {"answer": given} if isinstance(given, str) else given


class ReaderSpec(Part):
    """Columns with what a person said about each row: an answer, or the positive's probability."""

    answer: StrictStr | None = None
    confidence: StrictStr | None = None
    probability: StrictStr | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.answer is None) == (self.probability is None):
            raise ValueError("give the column of the answers, or {probability: COLUMN}")
        if self.confidence is not None and self.answer is None:
            raise ValueError("confidence belongs to answer; a probability has its own")
        return self

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read."""
        return [one for one in (self.answer, self.confidence, self.probability) if one is not None]


class TaskSpec(Part):
    """One question about the rows."""

    question: StrictStr | ColumnOf
    paraphrase: StrictStr = ""
    label: LabelSpec
    answers: AnswerSpec
    features: list[StrictStr] = Field(default_factory=list)
    ordinal: StrictBool = False
    positive: StrictInt | StrictStr | None = None
    costs: dict[JsonValue, dict[JsonValue, StrictInt | StrictFloat]] | None = None
    price: Annotated[float, Field(strict=True, gt=0)] | None = None
    why: StrictStr = ""
    deferral: DeferralSpec | None = None
    uncertainty: Annotated[list[UncertaintySpec], BeforeValidator(_one_or_more)] = Field(
        default_factory=list
    )
    rule: dict[JsonValue, StrictStr] = Field(default_factory=dict)
    readers: dict[StrictStr, Annotated[ReaderSpec, BeforeValidator(_answer_column)]] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _readers_are_hidden(self) -> Self:
        for name, reader in self.readers.items():
            if self.answers.per_row:
                raise ValueError(f"readers.{name}: readers are for fixed answers")
            for column in reader.columns:
                if column in (*self.features, self.label.column):
                    where = "label" if column == self.label.column else "features"
                    raise ValueError(
                        f"readers.{name}: the column {column!r} is also in {where}; a reader has "
                        "columns of their own, which no model is shown"
                    )
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.label.form is not None and not self.answers.per_row:
            raise ValueError("label.as is for options in columns; fixed answers are compared")
        if self.ordinal and self.answers.per_row:
            raise ValueError("ordinal is for fixed answers; options of a row have no order")
        if not self.features and isinstance(self.question, str) and not self.answers.per_row:
            raise ValueError("features is missing: name the columns that the model is shown")
        if not self.question:
            raise ValueError("question is empty: say what is asked")
        twice = [name for name in self.features if self.features.count(name) > 1]
        if twice:
            raise ValueError(f"features names {twice[0]!r} twice")
        return self


class FeatureSpec(OfPath):
    """How a column is shown, and which of its values mean: not measured."""

    label: StrictStr = ""
    usual: StrictStr = ""
    plausible: list[StrictInt | StrictFloat] | None = Field(None, min_length=2, max_length=2)
    missing: Annotated[list[MissingCode], BeforeValidator(_one_or_more)] = Field(
        default_factory=list
    )
    values: dict[StrictInt | StrictStr, StrictStr] = Field(default_factory=dict)
    text: StrictBool = False
    below_detection: BelowDetection | None = None
    above_detection: AboveDetection | None = None
    decimal: DecimalSign | None = None
    thousands: ThousandsSign | None = None
    second_unit: SecondUnitSpec | None = None
    decimals: StrictInt | None = Field(None, ge=0, le=10)
    states_label: Accepted | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.plausible is not None and self.plausible[0] >= self.plausible[1]:
            raise ValueError(f"plausible must be [low, high], not {self.plausible!r}")
        if self.text and (self.is_number or self.values):
            raise ValueError("a free text has no unit, plausible range or coded values")
        if self.decimals is not None and (self.text or self.values):
            raise ValueError("decimals is for a number; a free text or coded values have none")
        if self.second_unit is not None:
            self.second_unit.check_beside(self.unit, self.usual, coded=bool(self.values))
        return self

    @property
    def is_number(self) -> bool:
        """Say whether the file promises that the column holds numbers."""
        beyond = self.below_detection or self.above_detection
        return bool(self.unit or beyond) or self.plausible is not None


class BaselineSpec(Part):
    """Baselines of the file's own: a fitted regression, and a rule by SQL expressions."""

    logistic: StrictBool = True
    rule: dict[JsonValue, StrictStr] = Field(default_factory=dict)


class Declaration(Part):
    """The whole file."""

    suite: Literal["table"]
    name: StrictStr = Field(min_length=1)
    version: StrictInt | StrictFloat | StrictStr = 1
    source: SourceSpec
    record_id: StrictStr | None = None
    cluster: StrictStr | None = None
    split: Split | None = None
    tasks: dict[StrictStr, TaskSpec] = Field(min_length=1)
    features: dict[StrictStr, FeatureSpec | None] = Field(default_factory=dict)
    groups: list[StrictStr] = Field(default_factory=list)
    baselines: BaselineSpec = BaselineSpec()
    provenance: JsonObject = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _ids_of_fhir(cls, given: object) -> object:
        """Name the records of a FHIR source by the ids that it brings along."""
        source = given.get("source") if isinstance(given, Mapping) else None
        if isinstance(source, Mapping) and "fhir" in source:
            record = "encounter_id" if source.get("per") == "encounter" else "patient_id"
            return {"record_id": record, "cluster": "patient_id", **dict(given)}  # type: ignore[call-overload]
        return given

    @model_validator(mode="after")
    def _paths_have_resources(self) -> Self:
        for name, feature in self.features.items():
            of_path = {"fhirpath", "pick", "before", "factor", "optional"} & (
                feature.model_fields_set if feature else set()
            )
            if of_path and self.source.fhir is None:
                raise ValueError(f"features.{name}.{min(of_path)} needs source: {{fhir: FOLDER}}")
            known = name in self.source.columns or (feature and feature.fhirpath)
            if self.source.fhir is not None and not known:
                raise ValueError(f"features.{name}.fhirpath is missing")
        return self

    @property
    def paths(self) -> dict[str, PathColumn]:
        """Return the columns that are read from FHIR resources."""
        given = {n: f for n, f in self.features.items() if f} | dict(self.source.columns)
        return {name: one.path for name, one in given.items() if one.path is not None}

    @model_validator(mode="after")
    def _groups_are_free(self) -> Self:
        for name in self.groups:
            if name in _OWN_METADATA:
                raise ValueError(f"groups: {name!r} is a name of krisis; rename the column")
        return self

    @model_validator(mode="after")
    def _rules_fit(self) -> Self:
        for name, task in self.tasks.items():
            answers = {*map(str, task.answers.fixed), *(LETTERS if task.answers.per_row else "")}
            strange = sorted(self.rule(name).keys() - answers - {"defer"})
            if strange:
                place = f"tasks.{name}.rule" if task.rule else "baselines.rule"
                raise ValueError(f"{place}: {strange[0]} is no answer of the task {name!r}")
        return self

    def number_format(self, name: str) -> NumberFormat:
        """Return how the numbers of a column are written."""
        spec, source = self.feature(name), self.source
        return NumberFormat(
            decimal=spec.decimal or source.decimal,
            thousands=spec.thousands or source.thousands,
            below=spec.below_detection,
            above=spec.above_detection,
            unit=spec.unit,
        )

    @property
    def used_columns(self) -> list[str]:
        """Return the columns that the file names for a task; expressions may read others."""
        named = [self.record_id, self.cluster, self.split.column if self.split else None]
        for task in self.tasks.values():
            named += [*task.features, task.label.column, *(task.answers.columns or ())]
            named += [task.deferral.column if task.deferral else None, task.answers.column]
            named += [] if isinstance(task.question, str) else [task.question.column]
            named += [name for reader in task.readers.values() for name in reader.columns]
        return [name for name in dict.fromkeys([*named, *self.groups]) if name]

    def rule(self, task: str) -> dict[str, str]:
        """Return the rule of a task by its answers; the one under baselines is the first task's."""
        is_first = task == next(iter(self.tasks))
        given = self.tasks[task].rule or (self.baselines.rule if is_first else {})
        return {str(_answer_key(key)): sql for key, sql in given.items()}

    def feature(self, name: str) -> FeatureSpec:
        """Return what the file says about a feature; nothing is said of most."""
        return self.features.get(name) or FeatureSpec.model_validate({})

    @property
    def synthetic(self) -> bool:
        """Say whether the file calls its people invented."""
        return self.provenance.get("synthetic") is True


def read_declaration(path: Path) -> Declaration:
    """Read and check the file of a suite, or say in one sentence what is wrong and where."""
    return checked_declaration(read_suite_file(path), str(path))


def checked_declaration(content: JsonObject, place: str) -> Declaration:
    """Return the checked file; the error names the path of the first fault in it."""
    try:
        return Declaration.model_validate(content)
    except ValidationError as error:
        raise InvalidFile(f"{place}: {_fault(error.errors()[0])}") from None


def declaration_faults(content: JsonObject) -> list[str]:
    """Return every fault of the file in a sentence that begins with its key."""
    try:
        Declaration.model_validate(content)
    except ValidationError as error:
        return list(dict.fromkeys(map(_fault, error.errors())))
    return []


def _fault(found: ErrorDetails) -> str:
    inner = {"fixed", "files", "str", "ColumnOf", "int", "float", "[key]", "FeatureSpec"}
    steps = [str(step) for step in found["loc"] if str(step) not in inner]
    name = ".".join(steps).replace("constrained-", "")
    if found["type"] == "missing":
        return f"{name} is missing"
    message = found["msg"].removeprefix("Value error, ")
    received = "" if found["type"] == "value_error" else f", received {found['input']!r}"
    where = f"{name}: " if name else ""
    return f"{where}{message}{received}"
