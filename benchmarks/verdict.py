"""How often each word of the verdict is given to readers of known quality, by simulation.

Detection of a disease with a missed one at 1, a false alarm at .5 and a deferral at .15. The
probability p of the disease is known to the judge; readers know it more or less well.

python -m benchmarks.verdict [--runs 400] [--only knew] [--others] [--page PAGE]
python -m benchmarks.verdict --law | --coverage
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy import special, stats

from krisis.decisions.judged_rows import ALWAYS_DEFER, Figure, JudgedRows, Judgement, Rival
from krisis.decisions.judging import (
    confidence_trustworthy,
    knew_when,
    missed_disease,
    right_when_answered,
    usable_alone,
    worth_using,
)
from krisis.decisions.sample import Sample, find_threshold
from krisis.statistics.row_mean import row_mean

PRICE, FALSE_ALARM = 0.15, 0.5
WORDS = ("yes", "partly", "no", "cannot tell", None)
BEGIN, END = "<!-- words of the verdict -->", "<!-- end of the words -->"
Array = np.ndarray
Draw = np.random.Generator


# --- Worlds ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """Patients, their rows, and how the probability p of the disease is spread.

    p is Beta(a, b); rows of one patient share a part ``alike`` of the normal scores behind it.
    With ``unsure`` p is this or one less this, so that the best answer is wrong as often.
    """

    n_patients: int
    sizes: str = "one"  # row each, "eight", or "unequal"
    shape: tuple[float, float] = (0.5, 0.5)
    alike: float = 0.5
    unsure: float | None = None

    @property
    def name(self) -> str:
        rows = {"one": "", "eight": " × 8 rows", "unequal": " × 1 to 30 rows"}[self.sizes]
        return f"{self.n_patients:,}{rows}"

    def draw(self, draw: Draw) -> Cases:
        sizes = np.ones(self.n_patients, dtype=np.int64)
        if self.sizes == "eight":
            sizes[:] = 8
        elif self.sizes == "unequal":  # log-normal, mean about 4.5
            sizes = np.clip(np.exp(draw.normal(1.1, 0.9, self.n_patients)).round(), 1, 30)
        patients = np.repeat(np.arange(self.n_patients), sizes.astype(np.int64))
        shared = draw.normal(size=self.n_patients)[patients]
        own = draw.normal(size=patients.size)
        score = np.sqrt(self.alike) * shared + np.sqrt(1 - self.alike) * own
        uniform = np.clip(special.ndtr(score), 1e-9, 1 - 1e-9)
        p = np.clip(stats.beta.ppf(uniform, *self.shape), 1e-6, 1 - 1e-6)
        if self.unsure is not None:
            p = np.where(uniform < 0.5, self.unsure, 1 - self.unsure)
        return Cases(p, draw.random(p.size) < p, patients, shared)


@dataclass(frozen=True)
class Cases:
    p: Array
    ill: Array
    patients: Array
    shared: Array  # what the rows of a patient have in common

    @property
    def costs(self) -> dict[str, Array]:
        """Expected cost of each constant policy."""
        return {
            ALWAYS_DEFER: np.full(self.p.size, PRICE),
            "healthy": self.p,
            "ill": FALSE_ALARM * (1 - self.p),
        }

    @property
    def lowest(self) -> Array:
        return np.minimum(self.p, FALSE_ALARM * (1 - self.p))


# --- Readers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Acts:
    """What a reader did: answered, with which answer, and how sure."""

    answered: Array
    positive: Array
    confidence: Array


Reader = Callable[[Cases, Draw], Acts]


def believing(cases: Cases, p: Array) -> Acts:
    """Act by a belief as the ideal reader does by the truth."""
    negative, positive = p, FALSE_ALARM * (1 - p)
    said = positive < negative
    return Acts(np.minimum(negative, positive) < PRICE, said, np.where(said, p, 1 - p))


def ideal(cases: Cases, draw: Draw) -> Acts:
    return believing(cases, cases.p)


def tempered(temperature: float) -> Reader:
    return lambda cases, draw: believing(cases, special.expit(special.logit(cases.p) / temperature))


def noisy(sd: float) -> Reader:
    """See logit p with an error, part of which the rows of a patient share."""
    return lambda cases, draw: believing(
        cases, special.expit(special.logit(cases.p) + sd * draw.normal(size=cases.p.size))
    )


def deferring(due: float, safe: float) -> Reader:
    """Defer due cases and answer safe ones as often as this; answer as the ideal reader would."""

    def act(cases: Cases, draw: Draw) -> Acts:
        is_due = cases.lowest >= PRICE - 1e-9
        right = draw.random(cases.p.size) < np.where(is_due, due, safe)
        return replace(ideal(cases, draw), answered=is_due ^ right)

    return act


def never(cases: Cases, draw: Draw) -> Acts:
    return replace(ideal(cases, draw), answered=np.ones(cases.p.size, dtype=bool))


def always(cases: Cases, draw: Draw) -> Acts:
    return replace(ideal(cases, draw), answered=np.zeros(cases.p.size, dtype=bool))


def constant(positive: bool) -> Reader:
    def act(cases: Cases, draw: Draw) -> Acts:
        n = cases.p.size
        share = cases.ill.mean() if positive else 1 - cases.ill.mean()
        return Acts(np.ones(n, bool), np.full(n, positive), np.full(n, share))

    return act


def sure_at_random(cases: Cases, draw: Draw) -> Acts:
    return replace(never(cases, draw), confidence=draw.random(cases.p.size))


def slipping(share: float, reader: Reader = ideal) -> Reader:
    """Give the other answer in a share of the answers."""

    def act(cases: Cases, draw: Draw) -> Acts:
        acts = reader(cases, draw)
        return replace(acts, positive=acts.positive ^ (draw.random(cases.p.size) < share))

    return act


def mixture(share: float, first: Reader, second: Reader) -> Reader:
    """Act as the first in a share of the patients, else as the second."""

    def act(cases: Cases, draw: Draw) -> Acts:
        a, b = first(cases, draw), second(cases, draw)
        use = (draw.random(cases.patients.max() + 1) < share)[cases.patients]
        columns = ("answered", "positive", "confidence")
        return Acts(*(np.where(use, getattr(a, one), getattr(b, one)) for one in columns))

    return act


def answer_cost(cases: Cases, acts: Acts) -> Array:
    costs = cases.costs
    given = np.where(acts.positive, costs["ill"], costs["healthy"])
    return np.where(acts.answered, given, np.nan)


def judged(cases: Cases, acts: Acts, rivals: Mapping[str, Acts] | None = None) -> JudgedRows:
    given = answer_cost(cases, acts)
    others = []
    for name, rival in (rivals or {}).items():
        theirs = answer_cost(cases, rival)
        cost = np.where(rival.answered, theirs, PRICE)
        others.append(Rival(name=name, cost=cost, answer_cost=theirs))
    n = cases.p.size
    return JudgedRows(
        price=PRICE,
        patients=cases.patients,
        cost=np.where(acts.answered, given, PRICE),
        answer_cost=given,
        constants=cases.costs,
        answered=acts.answered,
        correct=acts.answered & (acts.positive == cases.ill),
        evaluated=np.ones(n, dtype=bool),
        no_answer=np.zeros(n, dtype=bool),
        confidence=np.where(acts.answered, acts.confidence, np.nan),
        lowest=cases.lowest,
        ideal=np.minimum(cases.lowest, PRICE),
        diseased=cases.ill,
        told_positive=acts.positive,
        rivals=others,
    )


# --- Confidences ----------------------------------------------------------------------------


def confidence_rows(cases: Cases, confidence: Array, correct: Array) -> JudgedRows:
    """Rows of a reader who answers all, of which only confidence and right answers matter."""
    acts = Acts(np.ones(confidence.size, bool), np.zeros(confidence.size, bool), confidence)
    return replace(judged(cases, acts), correct=correct)


def stating(
    confidences: Callable[[int, Draw], Array], right: Callable[[Array], Array]
) -> Callable[[Cases, Draw], JudgedRows]:
    """Right as often as a function of the confidence says; in several rows of a patient alike."""

    def rows(cases: Cases, draw: Draw) -> JudgedRows:
        stated = confidences(cases.p.size, draw)
        mixed = 0.5 * cases.shared + np.sqrt(0.75) * draw.normal(size=cases.p.size)
        score = mixed if np.unique(cases.patients).size < cases.p.size else cases_noise(cases, draw)
        return confidence_rows(cases, stated, special.ndtr(score) < right(stated))

    return rows


def cases_noise(cases: Cases, draw: Draw) -> Array:
    return draw.normal(size=cases.p.size)


def same(c: Array) -> Array:
    return c


def beta(a: float, b: float, low: float = 0.5) -> Callable[[int, Draw], Array]:
    return lambda n, draw: low + (1 - low) * draw.beta(a, b, n)


def among(values: Sequence[float], share: Sequence[float]) -> Callable[[int, Draw], Array]:
    return lambda n, draw: draw.choice(values, n, p=share)


def top_heavy(c: Array) -> Array:
    return np.where(c >= 0.99, 0.8, c)


def _tenth_at_99(n: int, draw: Draw) -> Array:
    return np.where(draw.random(n) < 0.1, 0.99, 0.5 + 0.45 * draw.random(n))


def _tenth_near_9(n: int, draw: Draw) -> Array:
    top = 0.88 + 0.04 * draw.random(n)
    return np.where(draw.random(n) < 0.1, top, 0.5 + 0.3 * draw.random(n))


def _fifteen_worse(c: Array) -> Array:
    return np.where(c > 0.85, c - 0.15, c)


CONFIDENCES: dict[str, Callable[[Cases, Draw], JudgedRows]] = {
    "calibrated, uniform from .5": stating(beta(1, 1), same),
    "calibrated, near 1": stating(beta(5, 1), same),
    "calibrated, near .6": stating(beta(1, 4), same),
    "calibrated, two peaks": stating(beta(0.5, 0.5), same),
    "calibrated, .6, .8, .9, .95": stating(
        among((0.6, 0.8, 0.9, 0.95), (0.2, 0.3, 0.3, 0.2)), same
    ),
    "5 points too high (limit of no)": stating(beta(1, 1), lambda c: np.clip(c - 0.05, 0, 1)),
    "5 points too low (limit of no)": stating(beta(1, 2), lambda c: np.clip(c + 0.05, 0, 1)),
    "10 points too low (limit of yes)": stating(beta(1, 2, 0.4), lambda c: np.minimum(c + 0.1, 1)),
    "10 points too high (limit of yes)": stating(beta(1, 1), lambda c: c - 0.1),
    "range off by .10, top not worse (limit of no)": stating(
        among((0.6, 0.8), (0.5, 0.5)), lambda c: np.where(c < 0.7, 0.5, 0.9)
    ),
    "range off by .15, top not worse (limit of yes)": stating(
        among((0.6, 0.8), (0.5, 0.5)), lambda c: np.where(c < 0.7, 0.45, 0.95)
    ),
    "top tenth 5 points worse (limit of no)": stating(
        among((0.6, 0.75, 0.9), (0.45, 0.45, 0.1)), lambda c: np.where(c > 0.8, 0.85, c)
    ),
    "top tenth 15 points worse (limit of yes)": stating(
        among((0.6, 0.75, 0.9), (0.45, 0.45, 0.1)), lambda c: np.where(c > 0.8, 0.75, c)
    ),
    "top tenth 15 points worse, no ties": stating(_tenth_near_9, _fifteen_worse),
    "coin, .5 or 1": stating(among((0.5, 1.0), (0.5, 0.5)), lambda c: np.full(c.size, 0.75)),
    "coin, uniform from 0": stating(beta(1, 1, 0.0), lambda c: np.full(c.size, 0.5)),
    "coin, uniform from .5": stating(beta(1, 1), lambda c: np.full(c.size, 0.75)),
    "inverted": stating(beta(1, 1), lambda c: 1.5 - c),
    "top-heavy (.99 right in 80 %)": stating(_tenth_at_99, top_heavy),
}


# --- Lines ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """A line of the verdict, a reader, and how its rows are judged."""

    line: str
    reader: str
    judge: Callable[[World, Draw], Judgement]
    changed: Mapping[str, object] = field(default_factory=dict)


def _judgement(
    rule: Callable[[JudgedRows], Judgement],
    reader: Reader,
    rivals: Mapping[str, Reader],
    world: World,
    draw: Draw,
) -> Judgement:
    cases = world.draw(draw)
    others = {name: rival(cases, draw) for name, rival in rivals.items()}
    return rule(judged(cases, reader(cases, draw), others))


RIVALS: dict[str, Reader] = {"guideline": deferring(0.65, 0.65), "logistic": noisy(1.0)}

READERS: dict[str, Reader] = {
    "ideal": ideal,
    "overconfident T = .5": tempered(0.5),
    "timid T = 2": tempered(2.0),
    "never defers": never,
    "always defers": always,
    "defers at random (35 %)": deferring(0.35, 0.65),
    "55/55": deferring(0.55, 0.55),
    "65/65": deferring(0.65, 0.65),
    "75/75 (the boundary)": deferring(0.75, 0.75),
    "70/60": deferring(0.70, 0.60),
    "80/70 (the boundary)": deferring(0.80, 0.70),
    "60/60 (.20, the boundary of no)": deferring(0.60, 0.60),
    "90/80": deferring(0.90, 0.80),
    "100/90": deferring(1.00, 0.90),
}


def balanced(make: Callable[[float], Reader], excess: Callable[[Cases, Acts], float]) -> Reader:
    """Return the reader of a family whose excess is 0 in the population, by bisection."""

    @cache
    def found() -> Reader:
        low, high = 0.0, 1.0
        cases = World(100_000).draw(np.random.default_rng(5))
        for _ in range(20):
            middle = (low + high) / 2
            value = excess(cases, make(middle)(cases, np.random.default_rng(6)))
            low, high = (middle, high) if value > 0 else (low, middle)
        return make(low)

    def act(cases: Cases, draw: Draw) -> Acts:
        return found()(cases, draw)

    return act


def _over_deferring(cases: Cases, acts: Acts) -> float:
    return (
        float(np.where(acts.answered, np.nan_to_num(answer_cost(cases, acts)), PRICE).mean())
        - PRICE
    )


def _answers_over_price(cases: Cases, acts: Acts) -> float:
    return PRICE - float(np.nanmean(answer_cost(cases, acts)))


def scenarios() -> Iterator[Scenario]:
    for name, reader in READERS.items():
        yield Scenario("Knew when not to answer?", name, partial(_judgement, knew_when, reader, {}))
    worth = {
        "ideal": ideal,
        "overconfident T = .5": tempered(0.5),
        "timid T = 2": tempered(2.0),
        "never defers": never,
        "always defers": always,
        "defers at random (35 %)": deferring(0.35, 0.65),
        "65/65": deferring(0.65, 0.65),
        "90/80": deferring(0.90, 0.80),
        "always healthy": constant(False),
        "always ill": constant(True),
        "equal to the rival": noisy(1.0),
        "equal to always deferring (steady)": balanced(
            lambda share: mixture(share, ideal, slipping(0.15, never)), _over_deferring
        ),
        "equal to always deferring (rare disasters)": balanced(
            lambda share: slipping(0.2 * (1 - share), deferring(1.0, 1.0)), _over_deferring
        ),
    }
    for name, reader in worth.items():
        yield Scenario("Worth using?", name, partial(_judgement, worth_using, reader, RIVALS))
    right = {
        "ideal": ideal,
        "overconfident T = .5": tempered(0.5),
        "timid T = 2": tempered(2.0),
        "never defers": never,
        "defers at random (35 %)": deferring(0.35, 0.65),
        "always healthy": constant(False),
        "always ill": constant(True),
        "half right": slipping(0.5, never),
        "answers cost the price (the boundary)": balanced(slipping, _answers_over_price),
    }
    for name, reader in right.items():
        yield Scenario(
            "Right when it answered?",
            name,
            partial(_judgement, right_when_answered, reader, RIVALS),
        )
    for name, rows in CONFIDENCES.items():
        yield Scenario("Confidence trustworthy?", name, partial(_trusted, rows))
    rare, risk = {"shape": (0.15, 4.017)}, "wrong in {:.0f} % wherever it answers"
    usable: dict[str, tuple[Reader, dict[str, object]]] = {
        "ideal": (ideal, {}),
        "ideal, prevalence 3.6 %": (ideal, rare),
        "always healthy, prevalence 3.6 %": (constant(False), rare),
        **{
            risk.format(100 * one): (sure_at_random, {"unsure": one})
            for one in (0.03, 0.04, 0.05, 0.1)
        },
        "half right": (slipping(0.5, never), {}),
    }
    for name, (reader, changed) in usable.items():
        yield Scenario("Usable alone at a risk of 5 %?", name, partial(_used, reader), changed)


def _trusted(rows: Callable[[Cases, Draw], JudgedRows], world: World, draw: Draw) -> Judgement:
    return confidence_trustworthy(rows(world.draw(draw), draw))


def _used(reader: Reader, world: World, draw: Draw) -> Judgement:
    """Certify as `krisis certify` does."""
    cases = world.draw(draw)
    rows = judged(cases, reader(cases, draw))
    _, code = np.unique(rows.patients, return_inverse=True)
    sizes = np.bincount(code)
    sample = Sample(
        np.where(rows.answered, rows.confidence, np.nan),
        (rows.answered & ~rows.correct).astype(float),
        code,
        sizes.size,
        most_rows=int(sizes.max()),
    )
    found = find_threshold(sample, "fixed-sequence", 0.05, 0.1)
    lowest = np.nan if found.lowest is None else found.tested.candidates.risk(found.lowest)
    return usable_alone(
        rows,
        answers=None if found.threshold is None else sample.accepts(found.threshold),
        lowest_risk=lowest,
        shown_too_risky=found.exceeds_everywhere(),
        risk=0.05,
    )


WORLDS = (World(60), World(200), World(1000))
OTHERS = (
    World(25, "eight"),
    World(60, "unequal"),
    World(200, "unequal"),
    World(200, alike=0.9, sizes="eight"),
)


@dataclass(frozen=True)
class Cell:
    """How often each word was given."""

    line: str
    reader: str
    world: str
    words: Counter[str | None] = field(default_factory=Counter)

    @property
    def n_runs(self) -> int:
        return sum(self.words.values())

    def share(self, word: str | None) -> float:
        return self.words[word] / self.n_runs


def simulate(scenario: Scenario, world: World, n_runs: int) -> Cell:
    cell = Cell(scenario.line, scenario.reader, world.name)
    world = replace(world, **scenario.changed)
    for seed in range(n_runs):
        draw = np.random.default_rng([seed, world.n_patients])
        cell.words[scenario.judge(world, draw).word] += 1
    return cell


def words_table(cells: Sequence[Cell]) -> str:
    """Return one table per line: yes / partly / no in per cent of the runs."""
    lines: list[str] = []
    worlds = list(dict.fromkeys(cell.world for cell in cells))
    for line in dict.fromkeys(cell.line for cell in cells):
        own = {(cell.reader, cell.world): cell for cell in cells if cell.line == line}
        lines += ["", f"**{line}**", "", f"| reader | {' | '.join(worlds)} |"]
        lines += ["|---" * (1 + len(worlds)) + "|"]
        for reader in dict.fromkeys(reader for reader, _ in own):
            shown = [_shown(own.get((reader, world))) for world in worlds]
            lines.append(f"| {reader} | {' | '.join(shown)} |")
    return "\n".join(lines[1:])


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    return " / ".join(_percent(cell.share(word)) for word in ("yes", "partly", "no"))


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}" if percent == round(percent) or percent >= 10 else f"{percent:.1f}"


# --- One law, and coverage --------------------------------------------------------------------


RANKED = ("no", "cannot tell", "partly", "yes")


@dataclass(frozen=True)
class LawCount:
    """Pairs of readers of the same cases of which one costs clearly less, and broken ones."""

    n_clear: int
    n_broken: int


def law_of_order(n_worlds: int) -> LawCount:
    """Of two runs on the same cases, count how often the clearly cheaper one has a worse word."""
    clear = broken = 0
    for seed in range(n_worlds):
        draw = np.random.default_rng([7, seed])
        world = World(
            int(draw.integers(20, 200)),
            str(draw.choice(["one", "eight", "unequal"])),
            shape=(float(draw.uniform(0.2, 1.5)), float(draw.uniform(0.2, 3.0))),
            alike=float(draw.random()),
        )
        cases = world.draw(draw)
        rivals = {name: rival(cases, draw) for name, rival in RIVALS.items()}
        found = []
        for _ in range(12):
            reader = draw.choice(
                [
                    slipping(0.3 * draw.random() ** 2, noisy(3 * draw.random())),
                    slipping(0.2 * draw.random() ** 2, tempered(0.2 + 3 * draw.random())),
                    slipping(0.2 * draw.random() ** 2, deferring(draw.random(), draw.random())),
                    mixture(draw.random(), ideal, slipping(draw.random(), never)),
                ]
            )
            rows = judged(cases, reader(cases, draw), rivals)
            word = worth_using(rows).word
            assert word is not None
            found.append((rows.cost, RANKED.index(word)))
        for first, its_word in found:
            for second, other_word in found:
                if row_mean(first - second, cases.patients).upper() < 0:
                    clear += 1
                    broken += its_word < other_word
    return LawCount(clear, broken)


COVERED: dict[str, Reader] = {
    "ideal": ideal,
    "80/70": deferring(0.8, 0.7),
    "T = .5": tempered(0.5),
    "defers all but 5 %": deferring(0.99, 0.05),
    "wrong in 3 % of answers": slipping(0.03),
}
COVERED_WORLDS = tuple(
    World(n, sizes, alike=alike)
    for n in (60, 200, 1000)
    for sizes, alike in (("one", 0.5), ("eight", 0.5), ("eight", 0.9), ("unequal", 0.5))
)
FIGURES = (
    *("cost", "saved per 100", "skill", "deferral skill"),
    *("found", "told otherwise", "left for people", "negative answers wrong"),
)


def figures_of(rows: JudgedRows) -> dict[str, Figure]:
    """Return the figures of a run whose intervals are to cover, by name."""
    worth = worth_using(rows)
    found = [worth.figure, *worth.beside, knew_when(rows).figure, *missed_disease(rows).beside]
    return {one.name: one for one in found if one is not None and one.name in FIGURES}


@dataclass(frozen=True)
class Coverage:
    """How often the interval of a figure lay below or above the truth, among those there were."""

    world: str
    reader: str
    figure: str
    n_runs: int
    too_low: float
    too_high: float

    @property
    def share(self) -> float:
        return 1 - self.too_low - self.too_high


def coverage(world: World, name: str, n_runs: int) -> list[Coverage]:
    """Return the coverage of every figure of a reader in a world."""
    reader = COVERED[name]
    many = replace(world, n_patients=400_000, sizes="one").draw(np.random.default_rng(1))
    truth = {
        one: figure.value
        for one, figure in figures_of(judged(many, reader(many, np.random.default_rng(2)))).items()
    }
    missed: dict[str, list[tuple[bool, bool]]] = {one: [] for one in FIGURES}
    for seed in range(n_runs):
        draw = np.random.default_rng([11, seed])
        cases = world.draw(draw)
        for one, figure in figures_of(judged(cases, reader(cases, draw))).items():
            if figure.interval is not None and figure.interval.defined:
                slack = 1e-6 + (1e-3 if name == "ideal" and one == "skill" else 0)
                missed[one].append(
                    (figure.high < truth[one] - slack, figure.low > truth[one] + slack)
                )
    alike = "" if world.sizes == "one" else f", alike {world.alike:g}"
    return [
        Coverage(world.name + alike, name, one, len(found), *np.mean(found, axis=0).tolist())
        for one, found in missed.items()
        if found
    ]


def coverage_table(cells: Sequence[Coverage]) -> str:
    """Return the coverage per world and figure: the lowest of all readers, and whose it is."""
    lines = [f"| world | {' | '.join(FIGURES)} |", "|---" * (1 + len(FIGURES)) + "|"]
    for world in dict.fromkeys(cell.world for cell in cells):
        shown = []
        for figure in FIGURES:
            own = [cell for cell in cells if (cell.world, cell.figure) == (world, figure)]
            least = min(own, key=lambda cell: cell.share)
            shown.append(f"{100 * least.share:.1f} ({least.reader})")
        lines.append(f"| {world} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table of words, of coverage, or the count of the law."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="", help="only scenarios whose line or reader has this")
    parser.add_argument("--others", action="store_true", help="worlds of several rows per patient")
    parser.add_argument("--law", action="store_true", help="the cheaper run has no worse word")
    parser.add_argument("--coverage", action="store_true", help="coverage of the intervals")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    asked = parser.parse_args()
    if asked.law:
        print(law_of_order(asked.runs))
    elif asked.coverage:
        found: list[Coverage] = []
        for world in COVERED_WORLDS:
            for name in COVERED:
                if asked.only.lower() in f"{world.name} {name}".lower():
                    found += coverage(world, name, asked.runs)
                    print(*found[-len(FIGURES) :], sep="\n", flush=True)
        print(coverage_table(found))
    else:
        _print_words(asked.only, OTHERS if asked.others else WORLDS, asked.runs, asked.page)


def _print_words(only: str, worlds: Sequence[World], n_runs: int, page: Path | None) -> None:
    cells: list[Cell] = []
    for scenario in scenarios():
        if only.lower() not in f"{scenario.line} {scenario.reader}".lower():
            continue
        start = time.perf_counter()
        fresh = [simulate(scenario, world, n_runs) for world in worlds]
        cells += fresh
        took = f"({time.perf_counter() - start:.0f} s)"
        print(scenario.line, scenario.reader, *map(_shown, fresh), took, sep="  ", flush=True)
    print(words_table(cells))
    if page:
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        page.write_text(f"{before}{BEGIN}\n\n{words_table(cells)}\n\n{END}{after}")


if __name__ == "__main__":
    main()
