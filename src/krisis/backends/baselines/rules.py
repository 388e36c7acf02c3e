"""One backend for every rule that a suite brings along: its guideline, its lexicon, its own."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass, replace

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.baselines.constant import prepared
from krisis.data.base import BaseDataSuite, Judgement, PatientRecord, Rule
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject, JsonValue

_REPEAT = "sample_index"


class RuleBackend(BaseBackend):
    """Judges by a rule of the suite, as `rule/NAME`.

    The rule sees the features and the context of a record, which is all that a model sees. A rule
    that is a dataclass has its fields with a default as options; one with a field
    ``sample_index`` is told which repeat it is asked for.
    """

    # What a rule understands is known once the suite is.
    takes_any_option = True

    def __init__(self, model: str, **options: JsonValue) -> None:
        self.name = model
        self.options = options
        self._rule: list[Rule] = []

    def prepare(self, suite: BaseDataSuite) -> None:
        """Take the rule of this name from the suite, or refuse with those it has."""
        known = suite.rules
        if self.name not in known:
            there = f"its rules are: {', '.join(sorted(known))}" if known else "it has no rules"
            raise InvalidValue(
                f"the suite {suite.name!r} has no rule {self.name!r} ({there}) for these data; "
                "choose another baseline, such as 'majority'"
            )
        self._rule = [_configured(self.name, known[self.name], self.options)]

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Judge one record."""
        return self.evaluate_sample(record, 0)

    def evaluate_sample(self, record: PatientRecord, sample_index: int) -> BackendResponse:
        """Judge one record for one of several repeats."""
        rule = prepared(self, self._rule)[0]
        if sample_index and _REPEAT in _field_names(rule):
            rule = _changed(rule, {_REPEAT: sample_index})
        judged = rule(record.features, record.context)
        if not isinstance(judged, Judgement):
            raise InvalidValue(
                f"the rule {self.name!r} returned {type(judged).__name__}; return a Judgement"
            )
        return BackendResponse.of(judged)

    def identity(self) -> JsonObject:
        """Return the name of the rule and its options."""
        rule = self._rule[0] if self._rule else None
        return {
            "backend": self.name,
            **{name: getattr(rule, name) for name in _option_names(rule)},
            **self.options,
        }


class Guideline(RuleBackend):
    """Applies the published rules of the field to what is shown, as the suite states them."""

    def __init__(self, **options: JsonValue) -> None:
        super().__init__("guideline", **options)


class Ideal(RuleBackend):
    """Knows how the synthetic cases of the suite were made: a ceiling, not a competitor."""

    def __init__(self, **options: JsonValue) -> None:
        super().__init__("ideal", **options)


class Lexicon(RuleBackend):
    """Reads text by the suite's keywords and phrases, and abstains without evidence."""

    def __init__(self, **options: JsonValue) -> None:
        super().__init__("lexicon", **options)


def _field_names(rule: object) -> list[str]:
    if not is_dataclass(rule):
        return []
    return [field.name for field in fields(rule) if field.default is not MISSING]


def _option_names(rule: object) -> list[str]:
    return [name for name in _field_names(rule) if name != _REPEAT]


def _configured(name: str, rule: Rule, options: JsonObject) -> Rule:
    for option in options:
        if option not in _option_names(rule):
            known = _option_names(rule)
            raise UnknownName.among(f"option of the rule {name!r}:", option, known)
    return _changed(rule, options) if options else rule


def _changed(rule: Rule, values: JsonObject) -> Rule:
    instance: JsonValue = rule  # a dataclass, which the type of a callable cannot say
    changed: Rule = replace(instance, **values)
    return changed
