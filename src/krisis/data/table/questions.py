"""One task of the file: its expressions as DuckDB accepts them, and its words for a prompt."""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from krisis.answers import AnswerSet
from krisis.cost_file import costs_from
from krisis.costs import ASSUMED, Costs
from krisis.data.base import FeatureDescription, Label, SecondUnit, Task
from krisis.data.perturbation import in_second_unit
from krisis.data.table.choices import Options, compiled_options
from krisis.data.table.databases import interruptible
from krisis.data.table.declaration import Declaration, FeatureSpec, TaskSpec
from krisis.data.table.expressions import (
    Expression,
    checked_expression,
    duckdb_says,
    quoted,
    sql_text,
)
from krisis.data.table.source import ROW, TABLE, Source, is_number
from krisis.errors import InvalidFile, UnknownName

if TYPE_CHECKING:
    import duckdb

QUESTION = "question"
BY_LABEL, UNCERTAIN, IMPLAUSIBLE = "deferral_label", "category_uncertain", "implausible_value"
_YES = ("yes", "true", "1", "y", "defer")
_NO = ("no", "false", "0", "n", "answer")
_ASK_QUESTION = "What is the answer to the question of the case?"
_ASK_OPTIONS = "Which of the options of the case answers its question best?"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a case is to be deferred: the name and the condition, and the columns that it reads."""

    name: str
    expression: Expression
    place: str


@dataclass(slots=True)
class Compiled:
    """What a task of the YAML became: SQL that DuckDB has accepted."""

    label: Expression
    reasons: list[Reason] = field(default_factory=list)
    deferral_column: Expression | None = None
    options: Options | None = None
    question_column: str | None = None


class Question:
    """A task of the file over its source: what is shown, and SQL that DuckDB has accepted."""

    def __init__(self, declaration: Declaration, name: str, source: Source) -> None:
        self._take(declaration, name, source)
        for fault in self.column_faults():
            raise fault
        self.compiled = self._compile()

    def _take(self, declaration: Declaration, name: str, source: Source) -> None:
        self.declaration, self.name, self.source = declaration, name, source
        self.spec: TaskSpec = declaration.tasks[name]
        self.place = f"tasks.{name}"
        self.evaluated: dict[str, Expression] = {}

    @classmethod
    def faults(cls, declaration: Declaration, name: str, source: Source) -> list[str]:
        """Return everything that keeps a task from being asked, in a sentence each."""
        question = object.__new__(Question)
        question._take(declaration, name, source)
        found = list(question.column_faults())
        for check in question._checks():
            try:
                check()
            except InvalidFile as error:
                found.append(error)
        return list(dict.fromkeys(map(str, found)))

    def _checks(self) -> Iterator[Callable[[], object]]:
        """Return the parts of the task that can be wrong independently of each other."""
        spec = self.spec
        yield lambda: self.expression(self._label_sql, f"{self.place}.label")
        for reason in spec.deferral.when if spec.deferral else {}:
            yield partial(self._rule, reason)
        for number in range(len(spec.uncertainty)):
            yield partial(self._uncertain, number)
        if spec.deferral and spec.deferral.column in self.source.columns:
            yield partial(self._deferral_label, str(spec.deferral.column))
        for feature in spec.features:
            if feature in self.source.columns and self.declaration.feature(feature).is_number:
                yield partial(self._number, feature, f"features.{feature}")

    @property
    def shown(self) -> list[str]:
        """Return the columns that the model sees, the question and its options included."""
        compiled = self.compiled
        own = [compiled.question_column] if compiled.question_column else []
        return [*self.spec.features, *own, *(compiled.options.columns if compiled.options else ())]

    def _column(self, name: str, key: str) -> str:
        if name not in self.source.columns:
            unknown = UnknownName.among("column", name, self.source.columns)
            raise InvalidFile(f"{self.source.name}: {key}: {unknown}")
        if name in self.source.faults:
            raise self.source.faults[name]
        return name

    def column_faults(self) -> Iterator[InvalidFile]:
        """Return what is wrong with the columns that the task uses, each once."""
        seen: set[str] = set()
        for key, name in self._named_columns():
            try:
                self._column(name, key)
                if self.source.columns[name] == "BLOB" and name in self.spec.features:
                    raise InvalidFile(
                        f"{self.source.name}, column {name}: it holds bytes, which cannot be "
                        f"shown; take it out of {self.place}.features"
                    )
            except InvalidFile as error:
                if str(error) not in seen:
                    yield error
                seen.add(str(error))
        for name in self.declaration.features:
            if name not in self.source.columns:
                unknown = UnknownName.among("column", name, self.source.columns)
                yield InvalidFile(f"{self.source.name}: features: {unknown}")

    def _named_columns(self) -> Iterator[tuple[str, str]]:
        """Return the columns that the task names, each with the key of the file that does."""
        declared, spec = self.declaration, self.spec
        named = {
            "record_id": declared.record_id,
            "cluster": declared.cluster,
            "split.column": declared.split.column if declared.split else None,
            f"{self.place}.label": spec.label.column,
            f"{self.place}.deferral": spec.deferral.column if spec.deferral else None,
        }
        yield from ((key, name) for key, name in named.items() if name is not None)
        for name in spec.features:
            yield f"{self.place}.features", name
        for name in declared.groups:
            yield "groups", name

    def expression(self, text: str, place: str) -> Expression:
        """Check an expression of the YAML over the columns of the table."""
        source = self.source
        found = checked_expression(
            source.connection, text, place, table=TABLE, columns=source.columns
        )
        for name in found.columns:
            self._column(name, place)
        self.evaluated[place] = found
        return found

    def execute(self, sql: str) -> duckdb.DuckDBPyConnection:
        """Run SQL with expressions of the YAML; name the one that fails on a value."""
        import duckdb

        try:
            interruptible(self.source.connection, sql)
            return self.source.connection
        except duckdb.Error as error:
            columns = ", ".join(map(quoted, self.source.columns))
            self.source.query(f"select max(hash({columns})) from {TABLE}")  # or the file is broken
            for place, one in self.evaluated.items():
                try:
                    self.source.query(f"select max(hash({one.sql})) from {TABLE}")
                except duckdb.Error as own:
                    text = one.sql.removeprefix("(").removesuffix("\n)")
                    raise InvalidFile(
                        f"{self.source.name}: {place}: {text!r} cannot be evaluated: "
                        f"{duckdb_says(own)}"
                    ) from None
            raise InvalidFile(f"{self.source.name}: {duckdb_says(error)}") from None

    def condition(self, text: str, place: str) -> Expression:
        """Check an expression that must be true or false."""
        found = self.expression(text, place)
        if found.kind != "BOOLEAN":
            raise InvalidFile(
                f"{place}: {text!r} gives {found.kind}, not true or false; write a comparison"
            )
        return found

    @property
    def _label_sql(self) -> str:
        label = self.spec.label
        return quoted(str(label.column)) if label.sql is None else label.sql

    def _compile(self) -> Compiled:
        spec = self.spec
        compiled = Compiled(self.expression(self._label_sql, f"{self.place}.label"))
        if not isinstance(spec.question, str):
            compiled.question_column = self._column(spec.question.column, f"{self.place}.question")
            self._refuse_no_question(compiled.question_column)
        if spec.answers.per_row:
            compiled.options = compiled_options(
                self.source, spec, compiled.label, f"{self.place}.answers"
            )
        taken = {QUESTION} if compiled.question_column else set()
        if clash := taken & set(spec.features) - {compiled.question_column}:
            raise InvalidFile(f"{self.place}.features: rename the column {clash.pop()!r}")
        if spec.deferral and spec.deferral.column:
            compiled.deferral_column = self._deferral_label(spec.deferral.column)
        compiled.reasons = [*self._rules(), *self._implausible()]
        return compiled

    def _refuse_no_question(self, name: str) -> None:
        row = self.source.query(
            f"select min({ROW}) from {TABLE} where coalesce(trim({quoted(name)}::varchar), '') = ''"
        )[0][0]
        if row is not None:
            raise InvalidFile(
                f"{self.source.place(row)}, column {name}: the question is missing; complete or "
                "remove the row"
            )

    def _rules(self) -> Iterator[Reason]:
        deferral = self.spec.deferral
        for reason in deferral.when if deferral else {}:
            yield self._rule(reason)
        for number in range(len(self.spec.uncertainty)):
            yield self._uncertain(number)

    def _rule(self, reason: str) -> Reason:
        assert self.spec.deferral is not None
        place = f"{self.place}.deferral.when.{reason}"
        return Reason(reason, self.condition(self.spec.deferral.when[reason], place), place)

    def _implausible(self) -> Iterator[Reason]:
        """Return the reasons by values that cannot be right; they are kept and shown."""
        for name in self.declaration.features:
            if name not in self.spec.features:
                continue
            spec, place = self.declaration.feature(name), f"features.{name}"
            if spec.is_number:
                self._number(name, place)
            if spec.plausible is not None:
                low, high = spec.plausible
                sql = f"(not ({quoted(name)} between {low!r} and {high!r}))"
                found = Expression(sql, (name,), "BOOLEAN")
                yield Reason(IMPLAUSIBLE, found, f"{place}.plausible")

    def _number(self, name: str, key: str) -> None:
        kind = self.source.columns[name]
        if not is_number(kind):
            raise InvalidFile(
                f"{self.source.name}, column {name}: it holds {kind}, and {key} asks for numbers"
            )

    def _uncertain(self, number: int) -> Reason:
        given = self.spec.uncertainty[number]
        place = f"{self.place}.uncertainty" + (f".{number}" if number else "")
        value = self.expression(given.value, f"{place}.value")
        if not is_number(value.kind):
            raise InvalidFile(f"{place}.value: {given.value!r} gives {value.kind}, not a number")
        sql = f"({p_other_side(value.sql, given.cv, given.limits)} >= {given.risk!r})"
        return Reason(UNCERTAIN, Expression(sql, value.columns, "BOOLEAN"), place)

    def _deferral_label(self, name: str) -> Expression:
        """Return whether a column says: defer; null where it says nothing."""
        column, kind = quoted(name), self.source.columns[name]
        chosen = self.spec.deferral.values if self.spec.deferral else None
        if chosen is not None:
            listed = ", ".join(sql_text(str(value)) for value in chosen)
            return Expression(f"({column}::varchar in ({listed}))", (name,), "BOOLEAN")
        text = f"lower(trim({column}::varchar))"
        if kind in ("FLOAT", "DOUBLE"):
            text = f"{column}::bigint::varchar"
        known = ", ".join(map(sql_text, (*_YES, *_NO)))
        strange = self.source.query(
            f"select min({ROW}), arg_min({column}, {ROW}) from {TABLE} "
            f"where {column} is not null and {text} not in ({known})"
        )[0]
        if strange[0] is not None:
            raise InvalidFile(
                f"{self.source.place(strange[0])}, column {name}: {strange[1]!r} is not yes or no; "
                f"list the values that mean: defer, as {self.place}.deferral.is"
            )
        yes = ", ".join(map(sql_text, _YES))
        return Expression(f"({text} in ({yes}))", (name,), "BOOLEAN")

    @cached_property
    def task(self) -> Task:
        """Return the task as prompts and metrics know it."""
        spec, options = self.spec, self.compiled.options
        answers: Mapping[Label, str] = spec.answers.fixed
        question = spec.question if isinstance(spec.question, str) else _ASK_QUESTION
        if options:
            answers = {letter: f"option {letter} of the case" for letter in options.letters}
            question = spec.question if isinstance(spec.question, str) else _ASK_OPTIONS
        known = AnswerSet(tuple(answers), positive=spec.positive)
        positive = known.positive_key() if spec.positive is None else known.match(spec.positive)
        if spec.positive is not None and positive is None:
            raise InvalidFile(
                f"{self.place}.positive: {spec.positive!r} is none of the answers "
                f"({', '.join(map(str, answers))})"
            )
        return Task(
            self.name,
            question,
            answers,
            self._descriptions(),
            ordered=spec.ordinal,
            positive=positive,
            groups={name: name for name in self.declaration.groups},
            paraphrase=spec.paraphrase,
            costs=self._costs(),
            due_by="label" if spec.deferral or spec.uncertainty else "costs",
        )

    def _costs(self) -> Costs:
        """Return what the file says that answers cost, else what is assumed."""
        spec = self.spec
        if spec.price is None and spec.costs is None:
            return ASSUMED
        stated = {"costs": spec.costs, "price": spec.price, "why": spec.why}
        content = {name: value for name, value in stated.items() if value}
        return costs_from(content, self.place)

    def _descriptions(self) -> dict[str, FeatureDescription]:
        found = {}
        for name in self.spec.features:
            spec = self.declaration.feature(name)
            meaning = _ranges(spec.usual, spec.plausible and [f"{end:g}" for end in spec.plausible])
            values: dict[Label, str] = dict(spec.values)
            if self.source.columns[name] == "BOOLEAN" and not values:
                values = {0: "no", 1: "yes"}
            words = spec.label or name
            found[name] = FeatureDescription(
                words,
                spec.unit,
                meaning,
                values,
                text=spec.text,
                second_unit=_second_unit(spec),
                decimals=spec.decimals,
                usual=spec.usual,
            )
        if self.compiled.question_column:
            found[QUESTION] = FeatureDescription("Question", text=True)
        for letter in self.compiled.options.letters if self.compiled.options else ():
            found[f"option_{letter}"] = FeatureDescription(f"Option {letter}")
        return found


def _ranges(usual: str, plausible: Sequence[object] | None) -> str:
    words = [f"usual {usual}"] if usual else []
    if plausible:
        words.append(f"possible {plausible[0]} to {plausible[1]}")
    return "; ".join(words)


def _second_unit(spec: FeatureSpec) -> SecondUnit | None:
    given = spec.second_unit
    if given is None:
        return None
    bare = SecondUnit(given.unit, given.factor, given.offset)
    ends = [in_second_unit(end, bare) for end in spec.plausible or ()]
    return replace(bare, meaning=_ranges(given.usual, ends))


# Hart's rational approximation in double precision, as given by West, "Better approximations to
# cumulative normal functions", Wilmott Magazine, May 2005, pp. 70-76. Horner, highest power first.
_ABOVE = (
    *(3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383),
    *(112.079291497871, 221.213596169931, 220.206867912376),
)
_BELOW = (
    *(8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461),
    *(296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752),
)


def _horner(coefficients: Iterable[float], x: str) -> str:
    first, *rest = map(repr, coefficients)
    for coefficient in rest:
        first = f"({first} * {x} + {coefficient})"
    return first


def normal_tail(z: str) -> str:
    """Return SQL of the upper tail 1 − Φ(z) of the standard normal distribution."""
    x = f"least(abs({z}), 7.0)"  # beyond it the tail is below 1.3e-12
    # A function of x, so that a long z is written, read and computed once.
    tail = f"exp(-x * x / 2) * {_horner(_ABOVE, 'x')} / {_horner(_BELOW, 'x')}"
    lower = f"list_transform([{x}], lambda x: {tail})[1]"
    return f"(case when {z} >= 0 then {lower} else 1 - {lower} end)"


def p_other_side(value: str, cv: float, limits: Sequence[float]) -> str:
    """Return SQL of the probability that the true value lies between other limits than the value.

    The true value is taken as normal around the measured one with the standard deviation cv · v.
    Between the limits L ≤ v < U it is p = 1 − Φ((U − v) / (cv·v)) + Φ((L − v) / (cv·v)), where a
    limit that there is none of adds nothing.
    """
    v, spread = f"({value})::double", f"(abs(({value})::double) * {cv!r})"
    terms = []
    for limit in sorted(limits):
        z = f"(({limit!r} - {v}) / {spread})"
        tail = normal_tail(f"abs{z}")
        terms.append((limit, tail))
    below = "0"
    above = "0"
    for limit, tail in terms:  # the nearest limit at or below the value
        below = f"case when {v} >= {limit!r} then {tail} else {below} end"
    for limit, tail in reversed(terms):  # the nearest one above it
        above = f"case when {v} < {limit!r} then {tail} else {above} end"
    return f"(case when {v} = 0 then 0 else ({below}) + ({above}) end)"
