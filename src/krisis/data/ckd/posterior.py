"""The exact posterior of the embedded cohort: what the visible values say about the latent state.

The model of `latent` is summed over everything that a record does not show: filtration rate, and
where hidden also age, sex, diabetes, hypertension and haemoglobin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.special import ndtr

from krisis.data.base import Features
from krisis.data.ckd import latent
from krisis.data.ckd.egfr import Array
from krisis.data.ckd.schema import Value, usable


@dataclass(frozen=True, slots=True)
class Posterior:
    """Probability of each cell of the grid, and of chronic kidney disease."""

    cells: Array
    ckd: float

    @property
    def categories(self) -> Array:
        """Return the probability of each category, worst first."""
        return np.bincount(latent.gfr_grid().category, weights=self.cells, minlength=6)


def posterior(features: Features, *, without: frozenset[str] = frozenset()) -> Posterior:
    """Return what the visible features say; names in ``without`` are treated as hidden."""
    shown = {name: usable(features, name) for name in features if name not in without}
    seen = {name: value for name, value in shown.items() if value is not None}
    cells = np.zeros_like(latent.gfr_grid().log_gfr)
    ckd = 0.0
    for diabetes, hypertension in _causes(seen):
        weight = _joint(seen, diabetes, hypertension)
        raised, not_raised = _albuminuria(diabetes)
        grade = seen.get("al")
        raised_seen = raised.sum(axis=1) if grade is None else raised[:, int(grade)]
        other_seen = not_raised.sum(axis=1) if grade is None else not_raised[:, int(grade)]
        cells += weight * (raised_seen + other_seen)
        low_gfr = latent.gfr_grid().category < 4
        ckd += float((weight * (raised_seen + low_gfr * other_seen)).sum())
    total = float(cells.sum())
    if not total > 0.0:
        # A patient that the cohort cannot hold, such as a creatinine of 32: nothing is learnt.
        return posterior({})
    return Posterior(cells / total, min(1.0, ckd / total))


def _causes(seen: Mapping[str, float]) -> Iterator[tuple[int, int]]:
    for diabetes in (0, 1):
        for hypertension in (0, 1):
            if seen.get("dm") in (None, diabetes) and seen.get("htn") in (None, hypertension):
                yield diabetes, hypertension


def _joint(seen: Mapping[str, float], diabetes: int, hypertension: int) -> Array:
    """Return the weight of each cell for given causes, all but albuminuria accounted for."""
    age, sex = seen.get("age"), seen.get("sex")
    weight = _prior(diabetes, hypertension, age, sex)
    person = _person(diabetes, hypertension, age, sex)
    for name in ("sc", "bu"):
        if name in seen:
            weight = weight * _measured(name, seen[name], age, sex)
    per_sex = _blood(seen, sex)
    for name in ("pot", "sod", "bgr", "bp"):
        if name in seen:
            per_sex = per_sex * latent.MEASUREMENTS[name].likelihood(person, seen[name])[:, 0, :]
    for name, probabilities in latent.GRADES.items():
        if name in seen:
            per_sex = per_sex * probabilities(person)[..., _grade(name, seen[name])][:, 0, :]
    return np.asarray((weight.sum(axis=1) * per_sex).sum(axis=0))


def _grade(name: str, shown: float) -> int:
    values = latent.GRADE_VALUES.get(name)
    return int(shown) if values is None else int(np.argmin(np.abs(np.array(values) - shown)))


@lru_cache(maxsize=4096)
def _person(diabetes: int, hypertension: int, age: Value, sex: Value) -> latent.Person:
    """Return every possible person: axes are sex, age and cell of the filtration rate."""
    sexes = np.array([0, 1] if sex is None else [sex])[:, None, None]
    ages = (latent.AGES if age is None else np.array([age]))[None, :, None]
    gfr = np.broadcast_to(latent.gfr_grid().gfr, (len(sexes), 1, len(latent.gfr_grid().gfr)))
    zeros = np.zeros_like(gfr)
    return latent.Person(gfr, ages, sexes, zeros + diabetes, zeros + hypertension)


@lru_cache(maxsize=4096)
def _prior(diabetes: int, hypertension: int, age: Value, sex: Value) -> Array:
    grid = latent.gfr_grid()
    ages = latent.AGES if age is None else np.array([age])
    by_category = latent.category_weights(ages, diabetes, hypertension)
    by_cell = by_category[:, grid.category] * grid.share_of_category
    if age is None:
        by_cell = by_cell * latent.AGE_PROBABILITIES[:, None]
    chance = float(latent.hypertension_probability(diabetes))
    of_causes = latent.DIABETES_PROBABILITY if diabetes else 1.0 - latent.DIABETES_PROBABILITY
    of_causes *= chance if hypertension else 1.0 - chance
    sexes = [1.0 - latent.FEMALE_PROBABILITY, latent.FEMALE_PROBABILITY]
    by_sex = np.array(sexes if sex is None else [1.0])
    return np.asarray(of_causes * by_sex[:, None, None] * by_cell[None])


@lru_cache(maxsize=4096)
def _measured(name: str, shown: float, age: Value, sex: Value) -> Array:
    low, high = latent.MEASUREMENTS[name].edges(shown)
    return _below(name, high, age, sex) - _below(name, low, age, sex)


@lru_cache(maxsize=4096)
def _below(name: str, edge: float, age: Value, sex: Value) -> Array:
    # Kept, since the upper edge of one printed value is the lower edge of the next. Neither
    # creatinine nor urea depends on the causes once the filtration rate is given.
    return latent.MEASUREMENTS[name].below(_person(0, 0, age, sex), edge)


_HAEMOGLOBIN = np.round(np.arange(1, 260) * 0.1, 1)


@cache
def _haemoglobin_table() -> Array:
    """Return the probability of each printed haemoglobin: axes are sex, cell and value."""
    person = _person(0, 0, 0, None)
    rows = [latent.MEASUREMENTS["hemo"].likelihood(person, value) for value in _HAEMOGLOBIN]
    return np.stack(rows, axis=-1)[:, 0]


def _blood(seen: Mapping[str, float], sex: Value) -> Array:
    """Return the likelihood of the blood count by sex and cell, summed over haemoglobin."""
    table = _haemoglobin_table()
    table = table if sex is None else table[[int(sex)]]
    weight = np.ones(len(_HAEMOGLOBIN))
    if "hemo" in seen:
        weight = (np.abs(_HAEMOGLOBIN - seen["hemo"]) < 0.05).astype(float)
    for name, (factor, sd, step) in latent.FROM_HAEMOGLOBIN.items():
        if name in seen:
            centre = _HAEMOGLOBIN * factor
            high, low = seen[name] + step / 2 - centre, seen[name] - step / 2 - centre
            weight = weight * (ndtr(high / sd) - ndtr(low / sd))
    return np.asarray(table @ weight)


@cache
def _albuminuria(diabetes: int) -> tuple[Array, Array]:
    """Return P(ratio raised, dipstick grade) and P(not raised, grade) by cell and grade."""
    middles = latent.RAISED_ACR + (np.arange(-400, 400) + 0.5) * 0.01
    mean = latent.log_acr_mean(_person(diabetes, 0, 0, 0))[0, 0][:, None]
    low, high = (middles - 0.005 - mean) / latent.LOG_ACR_SD, (middles + 0.005 - mean)
    density = ndtr(high / latent.LOG_ACR_SD) - ndtr(low)
    above = 1.0 - ndtr((latent.DIPSTICK_LIMITS - middles[:, None]) / latent.DIPSTICK_SD)
    ones, zeros = np.ones((len(middles), 1)), np.zeros((len(middles), 1))
    grades = -np.diff(np.concatenate([ones, above, zeros], axis=1), axis=1)
    is_raised = middles >= latent.RAISED_ACR
    return density[:, is_raised] @ grades[is_raised], density[:, ~is_raised] @ grades[~is_raised]
