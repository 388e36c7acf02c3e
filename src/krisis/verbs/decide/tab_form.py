"""What the address of the Decide page asks, and the commands that ask the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from krisis.decisions.answers import answers_of
from krisis.decisions.costs import CostTable, costs_from, costs_of_run
from krisis.decisions.run_sample import MOST_NOT_EVALUATED, ScoreOptions
from krisis.decisions.sample import DEFAULT_DELTA, DEFAULT_RISK, METHODS
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.pages.tabs import choice_of, number_of, text_of
from krisis.results.loading import place_in_commands
from krisis.verbs.decide.working_point import ThresholdQuestion

_MOST_ANSWERS_PRICED = 4


@dataclass(frozen=True)
class Asked:
    """What the address asks for: the question, the score, the certificate and the costs."""

    question: ThresholdQuestion
    confidence: str
    delta: float | None
    method: str
    max_not_evaluated: float | None
    costs: Mapping[str, str]

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Asked:
        """Read it, refusing what it cannot be."""
        shares = {kind: _share(query, kind) for kind in ("wrong", "answer")}
        given = [ThresholdQuestion(k, s) for k, s in shares.items() if s is not None]  # type: ignore[arg-type]
        if len(given) > 1:
            raise InvalidValue("wrong and answer are two questions; ask one of them")
        return cls(
            question=given[0] if given else ThresholdQuestion("wrong", DEFAULT_RISK),
            confidence=text_of(query, "confidence"),
            delta=number_of(query, "delta"),
            method=choice_of(query, "method", METHODS) or METHODS[0],
            max_not_evaluated=number_of(query, "max_not_evaluated"),
            costs={k: v for k in query if k.startswith("cost.") and (v := text_of(query, k))}
            | ({"defer": defer} if (defer := text_of(query, "defer")) else {}),
        )

    @property
    def risk(self) -> float:
        """The risk to certify: that of the question, also where it asks for a coverage."""
        return self.question.share if self.question.kind == "wrong" else DEFAULT_RISK

    @property
    def score(self) -> ScoreOptions:
        """The same options as those of `krisis certify`; a wrong answer is what counts."""
        return ScoreOptions(
            confidence=self.confidence,
            loss="error",
            max_not_evaluated=MOST_NOT_EVALUATED
            if self.max_not_evaluated is None
            else self.max_not_evaluated,
        )


def _share(query: Mapping[str, str], name: str) -> float | None:
    """Return a percentage of the query as a share; as decimals, so that 5 % is 0.05."""
    text = text_of(query, name).removesuffix("%").strip()
    if not text:
        return None
    try:
        number = Decimal(text[:40])
    except InvalidOperation:
        number = Decimal(-1)
    if not (number.is_finite() and 0 <= number <= 100):
        raise InvalidValue(f"{name} must be a number of per cent from 0 to 100, not {text[:40]!r}")
    return float(number / 100)


def cost_table(items: RunItems, asked: Asked) -> CostTable:
    """Return the costs of the address, else those of the task."""
    if not asked.costs:
        if items.costs is None:
            raise InvalidValue("The task has no costs of its own; give yours.")
        return costs_of_run(items, None)
    costs: dict[object, dict[object, float]] = {}
    for truth in answers_of(items):
        for answer in answers_of(items):
            text = asked.costs.get(f"cost.{truth}.{answer}", "")
            if text:
                costs.setdefault(truth, {})[answer] = _cost(text)
    fields: JsonObject = {"costs": costs}
    if "defer" in asked.costs:
        fields["defer"] = _cost(asked.costs["defer"])
    return costs_from(fields, "the address")


def _cost(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(f"a cost must be a number, not {text[:40]!r}") from None


def cost_fields(items: RunItems, asked: Asked) -> list[JsonObject]:
    """Return one field per kind of wrong answer, and one for deferring; none for many answers."""
    answers = answers_of(items)
    if not 2 <= len(answers) <= _MOST_ANSWERS_PRICED:
        return []
    preset = None if items.costs is None else costs_of_run(items, None)
    pairs = [(t, a) for t in answers for a in answers if t != a]
    known = {f"cost.{t}.{a}": preset.costs.get((t, a)) if preset else None for t, a in pairs}
    words = {f"cost.{t}.{a}": f"{a} where {t} is right" for t, a in pairs}
    defer = preset.defer if preset and not isinstance(preset.defer, Mapping) else None
    known["defer"], words["defer"] = defer, "deferring a case"
    return [
        {
            "name": name,
            "words": words[name],
            "value": asked.costs.get(name, "" if cost is None else f"{cost:g}"),
        }
        for name, cost in known.items()
    ]


def commands(path: Path, asked: Asked, items: RunItems) -> JsonObject:
    """Return the commands that give the figures of the page, from where krisis was started."""
    place = place_in_commands(path)
    risk = asked.risk
    parts = [f"krisis certify {place} --risk {risk!r}"]
    if asked.method == "crc":
        parts.append("--method crc")
    else:
        parts.append(f"--delta {asked.delta or DEFAULT_DELTA!r}")
        parts += [f"--method {asked.method}"] if asked.method != METHODS[0] else []
    score = [f"--confidence {asked.confidence}"] if asked.confidence else []
    parts += score
    parts += ["--loss error"] if items.table.answers.default_loss != "error" else []
    limit = asked.max_not_evaluated
    allowed = [] if limit is None else [f"--max-not-evaluated {limit!r}"]
    bound = [] if risk == DEFAULT_RISK else [f"--risk {risk!r}"]
    return {
        "certify": " ".join([*parts, *allowed]),
        "decide": " ".join([f"krisis decide {place}", *bound, *score, *allowed]),
        "audit": " ".join([f"krisis audit {place}", *bound, *score]),
    }
