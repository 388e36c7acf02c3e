"""Two runs side by side, with the rows that changed; computed once per pair of saved states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping, JsonObject
from krisis.reporting.comparison import ComparisonPage, comparison_page
from krisis.results.comparison.compare import CompareOptions, Comparison, compare_runs
from krisis.viewer.catalogue import Catalogue, LoadedRun
from krisis.viewer.page import Page

# Fewer than the command line takes, so that the page is there while one still remembers asking.
N_PERMUTATIONS = 2000


def page(catalogue: Catalogue, chosen: Sequence[str]) -> Page:
    """Compare two runs, or offer the choice where two are not named yet."""
    names = list(dict.fromkeys(name for name in chosen if name))
    available = list(catalogue.paths())
    content: JsonObject = {"runs": available, "chosen": names}
    if len(names) < 2:
        return Page("compare.html", "Compare", content, {"comparison": None, "rows": ("", "")})
    if len(names) > 2:
        raise InvalidValue(
            f"this page compares two runs and {len(names)} were chosen; for more, type: "
            "krisis compare RUN RUN RUN --html comparison.html"
        )
    left, right = (catalogue.load(name) for name in names)
    comparison, shown = _compared(left, right)
    content |= {"comparison": comparison.to_dict()}
    rows = tuple(f"/runs/{quote(name, safe='')}/cases/" for name in names)
    return Page("compare.html", "Compare", content, {"comparison": shown, "rows": rows})


@lru_cache(maxsize=2)
def _compared(left: LoadedRun, right: LoadedRun) -> tuple[Comparison, ComparisonPage]:
    runs: JsonMapping = {
        _label(left, right): left.result,
        _label(right, left): right.result,
    }
    comparison = compare_runs(runs, CompareOptions(n_permutations=N_PERMUTATIONS))
    return comparison, comparison_page(comparison)


def _label(run: LoadedRun, other: LoadedRun) -> str:
    model = run.result.backend_name or "unnamed model"
    return model if model != other.result.backend_name else f"{model} ({run.name})"
