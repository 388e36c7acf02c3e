"""What the kidney suite can show: bands of the cohort, calibration, ceiling, room, standard errors.

Run `python -m benchmarks.ckd [SECTION …] [TASK …]`; sections are load, bands, calibration, room,
experts and boosting. All of them take about half an hour on one quiet core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.timing import line
from krisis.backends.baselines.fitted import Logistic
from krisis.costs import TOLERANCE
from krisis.data.base import Features, SuiteConfig, Task
from krisis.data.ckd.cohort import SyntheticPatient, draw_cohort
from krisis.data.ckd.cohort_model import PARAMETERS, Parameters, tables
from krisis.data.ckd.course_posterior import course_posterior
from krisis.data.ckd.courses import (
    COURSE_PARAMETERS,
    MAX_VISITS,
    RECOVERIES,
    Course,
    CourseParameters,
    course_features,
    draw_courses,
    in_window,
    shown_visits,
)
from krisis.data.ckd.deferral import broken_rules
from krisis.data.ckd.egfr import Numbers, ckd_epi_2021
from krisis.data.ckd.posterior import _posterior, posterior
from krisis.data.ckd.reading import Question, guideline_probabilities, ideal_probabilities
from krisis.data.ckd.records import RecordMaker
from krisis.data.ckd.schema import FEATURES
from krisis.data.ckd.suite import CKDSuite, Deferral

Array = np.ndarray[Any, Any]
COURSE_PRICE = 0.2  # of the task progression, where every error costs 1
CROSS_SECTIONAL = (Task.DETECTION, Task.STAGING, Task.RISK, Task.ALBUMINURIA)
TASKS = (*CROSS_SECTIONAL, Task.PROGRESSION)
CORE = ("sc", "al", "age", "sex", "dm", "days_observed")


_TABLES: dict[tuple[int, int], Array] = {}


def _exact(question: Question, n: int, seed: int, shown: Sequence[Features]) -> Array:
    """Return the exact probabilities; tasks that share their patients share the work."""
    if question.task == Task.PROGRESSION:
        return course_posterior(shown)
    if (n, seed) not in _TABLES:
        _TABLES.clear()
        _TABLES[n, seed] = posterior(shown)
    return question.from_table(_TABLES[n, seed])


class Cases:
    """Patients with one visit or courses: what is shown, the labels, the exact probabilities."""

    def __init__(self, task: str, n: int, seed: int, *, exact: bool = True) -> None:
        self.question = Question(task)
        config = SuiteConfig(features="full", task=task, seed=seed, n_synthetic=n)  # type: ignore[arg-type]
        costs = CKDSuite(config).task.costs
        self.maker = RecordMaker(config, self.question, Deferral(), costs)
        self.price = costs.price
        known = self.question.answers
        self.table = np.array([[costs.of(truth, answer) for answer in known] for truth in known])
        self.patients: Sequence[SyntheticPatient | Course] = (
            draw_courses(n, seed=seed) if task == Task.PROGRESSION else draw_cohort(n, seed=seed)
        )
        self.shown = [self.maker._of_cohort(patient) for patient in self.patients]
        labels = [self.maker._label(patient) for patient in self.patients]
        self.codes = np.array([self.question.answers.index(label) for label in labels])
        if exact:
            self.exact = _exact(self.question, n, seed, self.shown)

    def due(self, chances: Array) -> Array:
        """Return which cases these probabilities leave due for deferral."""
        return (chances @ self.table).min(axis=1) >= self.price - TOLERANCE

    def costs(self, chances: Array, *, rules: bool = False, expected: bool = True) -> Array:
        """Return what a reader with these probabilities pays per case."""
        best, defers = (chances @ self.table).argmin(axis=1), self.due(chances)
        if rules:
            task = self.question.task
            defers |= np.array([bool(broken_rules(case, task)) for case in self.shown])
        return self.answer_costs(best, defers, expected=expected)

    def answer_costs(self, best: Array, defers: Array, *, expected: bool) -> Array:
        paid = (self.exact @ self.table)[np.arange(len(best)), best]
        return np.where(defers, self.price, paid if expected else self.table[self.codes, best])

    @property
    def constant(self) -> float:
        """Return the cost of the best constant policy."""
        return self.constant_of(slice(None))

    def constant_of(self, some: Any) -> float:
        """Return the cost of the best constant policy on some of the cases."""
        return min(self.price, float((self.exact[some] @ self.table).mean(axis=0).min()))


def skill(cost: Array, ideal: Array, constant: float) -> float:
    return 1.0 - (cost.mean() - ideal.mean()) / (constant - ideal.mean())


def load() -> None:
    for task in TASKS:
        taken = []
        for _ in range(5):
            start = time.process_time()
            CKDSuite(SuiteConfig(task=task)).load()
            taken.append(time.process_time() - start)
        seconds = min(taken)
        line(f"load 200 patients, {task}", f"{seconds:.3f} s CPU", "at most 0.2", seconds <= 0.2)


def _column(patients: Sequence[SyntheticPatient], name: str) -> Array:
    values = [patient.visible[name] for patient in patients]
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def bands() -> None:
    patients = draw_cohort(20_000, seed=1)
    egfr = np.array([p.truth.egfr for p in patients])
    acr = np.array([p.truth.acr_mg_g for p in patients])
    age, sex, blood = (_column(patients, name) for name in ("age", "sex", "hemo"))
    blood = np.where(blood > 25, blood / 10, blood)
    stage = np.array([5, 4, 3, 3, 2, 1])[np.searchsorted([15, 30, 45, 60, 90], egfr, side="right")]
    in_range("Spearman of age and eGFR", float(spearmanr(age, egfr)[0]), -0.65, -0.35)
    in_range("75 and over with eGFR ≥ 90", float((egfr[age >= 75] >= 90).mean()), 0, 0.05)
    hypertension = _column(patients, "htn")
    by_stage = [float(np.nanmean(hypertension[stage == k])) for k in range(1, 6)]
    print("  hypertension in G1–G5:", " ".join(f"{share:.3f}" for share in by_stage))
    in_range("hypertension in G1", by_stage[0], 0.30, 0.45)
    in_range("hypertension in G4–G5", float(np.nanmean(hypertension[stage >= 4])), 0.75, 1)
    low = np.where(sex == 1, blood <= 12.0, blood <= 13.0).astype(float)
    low[np.isnan(sex) | np.isnan(blood)] = np.nan
    for k, published in zip(range(1, 6), (0.08, 0.12, 0.17, 0.50, 0.53), strict=True):
        share = float(np.nanmean(low[stage == k]))
        in_range(
            f"anaemia in G{k} (published {published:.2f})",
            share,
            published - 0.04,
            published + 0.04,
        )
    potassium = _column(patients, "pot")
    known = (stage == 5) & ~np.isnan(potassium)
    in_range("potassium ≥ 5.5 in G5", float((potassium[known] >= 5.5).mean()), 0.08, 0.20)
    creatinine, urea = _column(patients, "sc"), _column(patients, "bu")
    creatinine = np.where(creatinine > 20, creatinine / 88.4, creatinine)
    in_range("creatinine below 0.4", float(np.nanmean(creatinine < 0.4)), 0, 0.005)
    both = ~np.isnan(creatinine) & ~np.isnan(urea)
    corr = float(np.corrcoef(np.log(creatinine[both]), np.log(urea[both]))[0, 1])
    in_range("correlation of log urea and log creatinine", corr, 0.5, 1)
    for k in range(1, 6):
        in_range(f"share of G{k}", float((stage == k).mean()), 0.05, 1)
    dipstick = _column(patients, "al")
    # Re-weighted to the prevalence of the published table.
    raised, wanted = acr >= 30, 0.36
    odds = wanted / (1 - wanted) / (raised.mean() / (1 - raised.mean()))
    for grade, published in zip(range(4), (0.20, 0.60, 0.94, 0.99), strict=True):
        share = raised[dipstick == grade].mean()
        moved = float(share * odds / (share * odds + 1 - share))
        in_range(
            f"P(ACR ≥ 30 | grade {grade}), at 36 % (published {published})",
            moved,
            published - 0.1,
            published + 0.1,
        )
    for task in TASKS:
        cases = Cases(task, 20_000, 1, exact=False)
        shares = np.bincount(cases.codes, minlength=len(cases.question.answers)) / len(cases.codes)
        named = dict(zip(map(str, cases.question.answers), shares.round(3).tolist(), strict=True))
        in_range(f"rarest answer of {task} {named}", float(shares.min()), 0.05, 1)
        _nuisances(task, cases)
    _course_bands()


def _nuisances(task: str, cases: Cases) -> None:
    """Order, missingness and last digits must predict nothing."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import cross_val_predict

    names = sorted(
        {name for case in cases.shown for name in case if not name.startswith(("visit_", "drug_"))}
    )
    missing = np.array([[case.get(name) is None for name in names] for case in cases.shown], float)
    y = cases.codes == np.bincount(cases.codes).argmax()
    guess = cross_val_predict(
        LogisticRegression(), missing[:, missing.any(0)], y, method="predict_proba"
    )
    in_range(f"  AUC of missingness, {task}", float(roc_auc_score(y, guess[:, 1])), 0.48, 0.52)
    in_range(f"  AUC of order, {task}", float(roc_auc_score(y, np.arange(len(y)))), 0.48, 0.52)
    if task in CROSS_SECTIONAL:
        digits = np.array(
            [
                [round((case.get(n) or 0) * 10) % 10 for n in ("pot", "hemo")]
                for case in cases.shown
            ],
            float,
        )
        guess = cross_val_predict(LogisticRegression(), digits, y, method="predict_proba")
        in_range(f"  AUC of last digits, {task}", float(roc_auc_score(y, guess[:, 1])), 0.48, 0.52)


def _course_bands() -> None:
    courses = draw_courses(20_000, seed=1)
    years = np.array([c.days[-1] / 365.25 for c in courses])
    usual = np.array([c.usual_first for c in courses])
    slope = (np.array([c.last_egfr for c in courses]) - usual) / years
    print(f"  slope a year of all: {slope.mean():.2f} ± {slope.std():.2f}")
    slope = slope[[c.injured_at is None for c in courses]]
    in_range("slope a year without an injury, mean", float(slope.mean()), -4.0, -2.0)
    in_range("slope a year without an injury, SD", float(slope.std()), 3.5, 5.5)
    injured = np.array([c.injured_at == 1 for c in courses])
    low = min(min(c.usual_first, c.first_egfr, c.last_egfr) for c in courses)
    in_range("lowest level", low, 0, 15)
    hurt = [c for c in courses if c.recovery is not None]
    for recovery in RECOVERIES:
        share = np.mean([c.recovery == recovery for c in hurt])
        print(f"  {recovery} recovery: {share:.3f} of {len(hurt):,} injuries")
    full = np.mean([c.recovery == "full" for c in hurt])
    in_range("full recovery (published .53 and .60)", float(full), 0.52, 0.66)
    for diabetes, published in ((0, 0.153), (1, 0.230)):
        rapid = np.mean([c.rapid for c in courses if c.visible["dm"] == diabetes])
        in_range(
            f"rapid progression, diabetes {diabetes} (published {published})",
            float(rapid),
            published - 0.05,
            published + 0.05,
        )
    _sudden_falls(courses)
    rates = [
        [egfr for _, _, egfr in shown_visits(_features(c)) if egfr is not None] for c in courses
    ]
    rise = np.array([len(r) > 1 and r[-1] / r[0] >= 1.25 for r in rates])
    in_range("shown rises ≥ 25 % without acute injury first", float(rise[~injured].mean()), 0, 0.03)


def _sudden_falls(courses: Sequence[Course]) -> None:
    """What the ideal reader makes of a last estimate 40 % below the one before, unexplained."""
    sudden, after_calm = [], []
    for course in courses:
        case = _features(course)
        visits, drug = shown_visits(case), case.get("drug_day")
        rates = [egfr for _, _, egfr in visits if egfr is not None]
        if visits[-1][2] is None or len(rates) < 2 or rates[-1] > 0.6 * rates[-2]:
            continue
        if drug is None or not in_window(drug, visits[-1][0]):
            sudden.append(case)
            after_calm.append(len(rates) > 2 and rates[-2] >= 0.75 * rates[0])
    posterior = course_posterior(sudden)
    for name, here in (("sudden falls", slice(None)), ("sudden falls after calm", after_calm)):
        found = posterior[here]
        sure = float((found[:, 0] > 1 - COURSE_PRICE).mean())
        deferred = float((1 - found.max(axis=1) >= COURSE_PRICE).mean())
        in_range(f"{name} (n = {len(found):,}): P(stable) above .8", sure, 0, 0.05)
        in_range(f"{name}: deferred", deferred, 1 / 3, 1)


def _features(course: Course) -> Mapping[str, Any]:
    age, sex = course.visible["age"], course.visible["sex"]
    visits = course_features(course.days, course.creatinine, age=float(age or 0), female=bool(sex))
    return {**course.visible, **visits}


def in_range(what: str, value: float, low: float, high: float) -> None:
    line(what, f"{value:.3f}", f"{low:g} to {high:g}", low <= value <= high)


def calibration() -> None:
    for task in _chosen():
        cases = Cases(task, 20_000 if task == Task.PROGRESSION else 40_000, 2)
        n, exact = len(cases.codes), cases.exact
        worst, ece = 0.0, 0.0
        for answer in range(exact.shape[1]):
            chance, is_so = exact[:, answer], cases.codes == answer
            bins = np.minimum((chance * 10).astype(int), 9)
            for place in range(10):
                here = bins == place
                variance = float((chance[here] * (1 - chance[here])).sum())
                if variance > 1.0:
                    gap = float((is_so[here] - chance[here]).sum())
                    z = gap / np.sqrt(variance)
                    worst = max(worst, abs(z))
                    ece += abs(gap) / n / exact.shape[1]
                    print(
                        f"    {cases.question.answers[answer]!s:10} bin {place / 10:.1f}: "
                        f"n {here.sum():6,}, expected {chance[here].mean():.4f}, "
                        f"seen {is_so[here].mean():.4f}, z {z:+.2f}"
                    )
        line(f"{task}: largest |z| of a bin, n = {n:,}", f"{worst:.2f}", "at most 3", worst <= 3)
        print(f"    expected calibration error {ece:.4f}")
        readers = {
            "ideal": (exact, False),
            "guideline": (guideline_probabilities(cases.question, cases.shown), True),
        }
        for name, (chances, rules) in readers.items():
            _drawn_against_expected(task, name, cases, chances, rules)
        always = exact.argmax(axis=1), np.zeros(n, bool)
        gap = cases.answer_costs(*always, expected=False) - cases.answer_costs(
            *always, expected=True
        )
        _z(f"{task}: drawn − expected cost, always the best answer", gap)
        chosen = np.clip(exact[np.arange(n), cases.codes], 1e-12, 1)
        safe = np.clip(exact, 1e-12, 1)
        entropy = -(exact * np.log(safe)).sum(axis=1)
        _z(f"{task}: log loss − entropy", -np.log(chosen) - entropy)


def _drawn_against_expected(
    task: str, name: str, cases: Cases, chances: Array, rules: bool
) -> None:
    gap = cases.costs(chances, rules=rules, expected=False) - cases.costs(chances, rules=rules)
    _z(f"{task}: drawn − expected cost, {name}", gap)


def _z(what: str, gap: Array) -> None:
    z = float(gap.mean() / (gap.std() / np.sqrt(len(gap))))
    line(what, f"z {z:+.2f}", "|z| at most 3", abs(z) <= 3)


def _table(cases: Cases) -> Array:
    """Return all shown findings as numbers, with log creatinine and eGFR in their right unit."""
    if cases.question.task == Task.PROGRESSION:
        names = ["age", "sex", "dm", "htn", "al", "drug_started", "drug_day"]
        names += [
            f"visit_{k}_{what}" for k in range(1, MAX_VISITS + 1) for what in ("day", "sc", "egfr")
        ]
        assert {name for case in cases.shown for name in case} <= set(names)  # all that is shown
        rows = [[_float(case.get(name)) for name in names] for case in cases.shown]
        extra = []
        for case in cases.shown:
            visits = [(d, e) for d, _, e in shown_visits(case) if e is not None]
            first, last = (visits[0], visits[-1]) if visits else ((0, np.nan), (1, np.nan))
            n_days = shown_visits(case)[-1][0]
            since = n_days - float(case.get("drug_day") or np.nan)
            rates = [e for _, e in visits]
            slope = np.polyfit([d for d, _ in visits], rates, 1)[0] if len(visits) > 1 else np.nan
            middle = float(np.median(rates)) if rates else np.nan
            logs = [np.log(_float(case.get(f"visit_{k}_sc"))) for k in range(1, MAX_VISITS + 1)]
            steps = np.diff(logs)  # trees split on a value, not on a difference
            changes = [last[1] / first[1], slope, last[1] / middle]
            extra.append([n_days, since, middle, last[1], *changes, *logs, *steps])
        return np.hstack([np.array(rows), np.array(extra)])
    names = [*FEATURES, "sex", "days_observed"]
    assert {name for case in cases.shown for name in case} <= set(names)
    table = np.array([[_float(case.get(name)) for name in names] for case in cases.shown])
    at = {name: place for place, name in enumerate(names)}
    sc, hb = table[:, at["sc"]], table[:, at["hemo"]]
    table[:, at["sc"]] = np.where(sc > 20, sc / 88.4, sc)
    table[:, at["hemo"]] = np.where(hb > 25, hb / 10, hb)
    sc, age, sex = table[:, at["sc"]], table[:, at["age"]], table[:, at["sex"]]
    rates = [ckd_epi_2021(sc, age, female=female) for female in (True, False)]
    egfr = np.where(np.isnan(sex), np.mean(rates, axis=0), np.where(sex == 1, *rates))
    more = [np.log(sc), egfr, table[:, at["bu"]] / sc]
    return np.hstack([table, np.stack(more, axis=1)])


def _float(value: Any) -> float:
    return np.nan if value is None else float(value)


# What the gradient-boosted classifier is tuned over; the best by held-out log loss is kept.
CANDIDATES: tuple[Mapping[str, float], ...] = (
    {"learning_rate": 0.1, "max_leaf_nodes": 31, "min_samples_leaf": 20, "l2_regularization": 1.0},
    {"learning_rate": 0.1, "max_leaf_nodes": 8, "min_samples_leaf": 50, "l2_regularization": 1.0},
    {"learning_rate": 0.05, "max_leaf_nodes": 15, "min_samples_leaf": 100, "l2_regularization": 10},
    {"learning_rate": 0.05, "max_leaf_nodes": 31, "min_samples_leaf": 200, "l2_regularization": 10},
    {"learning_rate": 0.03, "max_leaf_nodes": 15, "min_samples_leaf": 50, "l2_regularization": 1.0},
    {"learning_rate": 0.03, "max_leaf_nodes": 63, "min_samples_leaf": 200, "l2_regularization": 30},
)


def _log_loss(chances: Array, codes: Array) -> Array:
    return -np.log(np.clip(chances[np.arange(len(codes)), codes], 1e-12, 1))


def _boosted(settings: Mapping[str, float]) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=600, early_stopping=True, n_iter_no_change=15, random_state=0, **settings
    )


def boosting() -> None:
    for task in _chosen():
        test = Cases(task, 20_000, 3)
        train = Cases(task, 100_000, 4, exact=False)
        shown, codes = _table(train), train.codes
        held_out = np.arange(len(codes)) % 5 == 0  # patients are in no order
        found = [
            _log_loss(
                _boosted(settings)
                .fit(shown[~held_out], codes[~held_out])
                .predict_proba(shown[held_out]),
                codes[held_out],
            ).mean()
            for settings in CANDIDATES
        ]
        best = CANDIDATES[int(np.argmin(found))]
        print(f"    {task}: held-out log loss {', '.join(f'{one:.4f}' for one in found)}; {best}")
        chances = _boosted(best).fit(shown, codes).predict_proba(_table(test))
        gap = _log_loss(chances, test.codes) - _log_loss(test.exact, test.codes)
        error = float(gap.std() / np.sqrt(len(gap)))
        line(
            f"{task}: log loss of boosting − exact",
            f"{gap.mean():+.4f} ± {error:.4f}",
            "at least −2 SE",
            gap.mean() >= -2 * error,
        )
        more = test.costs(chances).mean() - test.costs(test.exact).mean()
        print(f"    its decision cost is {more:+.4f} against the ideal reader", flush=True)


def _logistic(cases: Cases) -> tuple[Array, Array]:
    """Return answers and deferrals of the suite's logistic baseline, fitted on 800 patients."""
    suite = CKDSuite(SuiteConfig(features="full", task=cases.question.task, seed=11))  # type: ignore[arg-type]
    backend = Logistic()
    backend.prepare(suite)
    records = cases.maker.synthetic(cases.patients, training=True)
    found = backend.evaluate_batch(records)
    answers = cases.question.answers
    best = np.array([0 if r.prediction is None else answers.index(r.prediction) for r in found])
    return best, np.array([r.abstained for r in found])


def room() -> None:
    rng = np.random.default_rng(0)
    for task in _chosen():
        cases = Cases(task, 20_000, 5)
        n, rows = len(cases.codes), np.arange(len(cases.codes))
        guide = guideline_probabilities(cases.question, cases.shown)
        ideal, constant = cases.costs(cases.exact), cases.constant
        logistic = _logistic(cases)
        most = int(cases.exact.mean(axis=0).argmax())
        no = np.zeros(n, bool)
        costs = {
            "guideline": cases.costs(guide, rules=True),
            "logistic": cases.answer_costs(*logistic, expected=True),
            "majority": cases.answer_costs(np.full(n, most), no, expected=True),
            "always-defer": np.full(n, cases.price),
            "always-best": cases.answer_costs(
                (cases.exact @ cases.table).argmin(1), no, expected=True
            ),
        }
        if task in CROSS_SECTIONAL:
            core = [{name: case[name] for name in CORE} for case in cases.shown]
            costs["core Bayes"] = cases.costs(ideal_probabilities(cases.question, core))
        deferred = float(cases.due(cases.exact).mean())
        print(
            f"{task}: K ideal {ideal.mean():.4f} (defers {deferred:.0%}), "
            f"K constant − K ideal {constant - ideal.mean():.4f}"
        )
        for name, cost in costs.items():
            samples = rng.integers(0, n, (400, 200))
            values = [
                1 - (cost[s].mean() - ideal[s].mean()) / (cases.constant_of(s) - ideal[s].mean())
                for s in samples
            ]
            low, high = np.percentile(values, [2.5, 97.5])
            print(
                f"    skill of {name:13} {skill(cost, ideal, constant):6.2f}   "
                f"95 % of runs of 200 between {low:.2f} and {high:.2f}"
            )
        coin = rng.random(n) < 0.5
        for expected in (True, False):
            paid = cases.costs(guide, rules=True, expected=expected)
            half = np.where(coin, paid, cases.costs(cases.exact, expected=expected))
            gap = paid - half
            needed = (2.80 * gap.std() / gap.mean()) ** 2 if gap.mean() > 0 else np.inf
            how = "expected" if expected else "drawn"
            print(
                f"    cases that separate guideline and halfway reader, {how} loss: {needed:,.0f}"
            )
        _errors(cases, guide, rows)
        sys.stdout.flush()


def _errors(cases: Cases, guide: Array, rows: Array) -> None:
    """Print the standard error of Decision Cost at n = 200, drawn and expected."""
    always = cases.exact.argmax(axis=1), np.zeros(len(rows), bool)

    def both(cost: Callable[[bool], Array]) -> str:
        drawn, expected = (cost(flag).std() / np.sqrt(200) for flag in (False, True))
        return f"{drawn:.4f} → {expected:.4f} (ratio {expected / drawn:.2f})"

    readers: Mapping[str, Callable[[bool], Array]] = {
        "ideal": lambda flag: cases.costs(cases.exact, expected=flag),
        "guideline": lambda flag: cases.costs(guide, rules=True, expected=flag),
        "always-best": lambda flag: cases.answer_costs(*always, expected=flag),
        "guideline − ideal": lambda flag: (
            cases.costs(guide, rules=True, expected=flag) - cases.costs(cases.exact, expected=flag)
        ),
    }
    for name, cost in readers.items():
        print(f"    SE at 200 of {name:17} drawn → expected: {both(cost)}")


# How wrong an expert's numbers are: the standard deviation of a shift, or of a log factor.
SHIFTS = {
    "diseased": 0.6, "dipstick_shift": 0.35, "log_acr": 0.4, "hypertension": 0.5,
    "haemoglobin_women": 0.4, "haemoglobin_men": 0.4, "urea": 0.12, "potassium": 0.15,
    "gravity_centre": 0.4,
}  # fmt: skip
FACTORS = {
    "acute": 0.5, "haematuria": 0.5, "infection": 0.5, "false_trace": 0.7, "log_acr_per_lx": 0.3,
    "haemoglobin_drop": 0.3, "urea_sd": 0.2,
}  # fmt: skip
COURSE_SHIFTS = {"mode": 0.8, "mode_if_diabetes": 0.4, "rapid": 0.6, "full_if_disease": 0.4}
COURSE_FACTORS = {
    "mode_per_log_acr": 0.4, "sd_below": 0.25, "sd_above": 0.25, "acute_at_first": 0.5,
    "acute_later": 0.5, "rapid_slope": 0.2,
}  # fmt: skip
FULL_SHIFT = 0.6  # of the logit of a full recovery, in all stages alike


def _expert(rng: np.random.Generator) -> tuple[Parameters, CourseParameters]:
    def wrong(given: Any, shifts: Mapping[str, float], factors: Mapping[str, float]) -> Any:
        moved = {n: getattr(given, n) + sd * rng.standard_normal() for n, sd in shifts.items()}
        scaled = {
            n: getattr(given, n) * float(np.exp(sd * rng.standard_normal()))
            for n, sd in factors.items()
        }
        return replace(given, **moved, **scaled)

    parameters = wrong(PARAMETERS, SHIFTS, FACTORS)
    courses = wrong(COURSE_PARAMETERS, COURSE_SHIFTS, COURSE_FACTORS)
    shift = FULL_SHIFT * rng.standard_normal()
    return (
        replace(parameters, acute=min(parameters.acute, 0.9)),
        replace(courses, full=tuple(one + shift for one in courses.full)),
    )


def percentage_decline(first: Array, slope: Array, years: Numbers, top: Numbers) -> Array:
    """Return levels that lose the same share every year, not the same amount."""
    return np.clip(first * np.exp(slope * years / 60.0), 4.0, top)


def _of_another_structure(
    task: str, shown: Sequence[Features], parameters: Parameters, courses: CourseParameters
) -> Array:
    """Return the probabilities of a reader who believes in another model.

    Courses: a constant share is lost every year, nobody is a rapid progressor by nature, and an
    injury recovers entirely or not at all. One visit: the eGFR of an age is log-normal, without a
    mixture of healthy and diseased people, and the ACR has nothing to do with it.
    """
    if task == Task.PROGRESSION:
        courses = replace(courses, rapid=-30.0, sd_below=1.7 * courses.sd_below, partial=0.0)
        return course_posterior(
            shown, parameters=parameters, courses=courses, decline=percentage_decline
        )
    made = tables(parameters)
    place = made.grid.log_value
    mean = (made.egfr * place).sum(axis=-1, keepdims=True)
    variance = (made.egfr * (place - mean) ** 2).sum(axis=-1, keepdims=True)
    egfr = np.exp(-0.5 * (place - mean) ** 2 / variance) * np.gradient(place) * (made.egfr > 0)
    egfr = egfr / egfr.sum(axis=-1, keepdims=True)
    often = np.einsum("a,dac->c", made.ages, made.egfr) / 2
    acr = np.broadcast_to(np.einsum("c,dhcr->dhr", often, made.acr)[:, :, None], made.acr.shape)
    table = _posterior(shown, replace(made, egfr=egfr, acr=acr), measured_gfr=False)
    return Question(task).from_table(table)


def experts() -> None:
    for task in _chosen():
        cases = Cases(task, 1000 if task == Task.PROGRESSION else 2000, 6)
        rng = np.random.default_rng(1)
        guide = cases.costs(guideline_probabilities(cases.question, cases.shown), rules=True)
        ideal = cases.costs(cases.exact)
        way, skills = [], []
        for _ in range(14):
            parameters, courses = _expert(rng)
            chances = ideal_probabilities(
                cases.question, cases.shown, parameters=parameters, courses=courses
            )
            cost = cases.costs(chances)
            way.append(float((guide.mean() - cost.mean()) / (guide.mean() - ideal.mean())))
            other = _of_another_structure(task, cases.shown, parameters, courses)
            skills.append(skill(cases.costs(other), ideal, cases.constant))
        middle = float(np.median(way))
        line(
            f"{task}: way from guideline to ideal, median of 14",
            f"{middle:.2f} (worst {min(way):.2f})",
            "at least 0.5",
            middle >= 0.5,
        )
        middle = float(np.median(skills))
        line(
            f"{task}: skill of another structure, median of 14",
            f"{middle:.2f} (worst {min(skills):.2f})",
            "at least 0.7, or the page says so",
            middle >= 0.7,
        )
        sys.stdout.flush()


def _chosen() -> list[str]:
    """Return the tasks that are named on the command line, else all."""
    return [task for task in TASKS if task in sys.argv] or list(TASKS)


SECTIONS = {
    "load": load, "bands": bands, "calibration": calibration, "room": room, "experts": experts,
    "boosting": boosting,
}  # fmt: skip


def main() -> None:
    for name in [one for one in sys.argv[1:] if one in SECTIONS] or list(SECTIONS):
        print(f"— {name}", flush=True)
        SECTIONS[name]()


if __name__ == "__main__":
    main()
