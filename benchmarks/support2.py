"""The tables of the page on SUPPORT2: readers, baselines, cost saved, teams, certificates.

Run `python -m benchmarks.support2` after `krisis pull support2`; it takes about two minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

from krisis import Benchmark, SuiteConfig, registry
from krisis.backends.base import BaseBackend
from krisis.data.base import PatientRecord
from krisis.data.support2.file import DISEASES
from krisis.data.support2.suite import Support2Suite
from krisis.decisions.certify import CertifyOptions, certify_run
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.verify import verify_run
from krisis.execution.options import Execution
from krisis.metrics.items import Source
from krisis.metrics.scoring import metric_from_name
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of_result
from krisis.verbs.decide.reader import Rate, decide_with_reader

PRICES = (0.1, 0.2)
NEVER = 0.999  # at this price everybody answers every case
RISK = 0.2
FITTED = ("logistic", "boosting")
READERS = ("physician", "reader/support-model")
METRICS = ("disease_auroc", "decision_cost", "cost_saved")


def backend_of(name: str) -> BaseBackend:
    return registry.find("backends", name.partition("/")[0])(
        **({"model": "support-model"} if "/" in name else {})
    )


def ran(
    suite: Support2Suite, name: str, records: list[PatientRecord] | None = None
) -> BenchmarkResult:
    metrics = [metric_from_name(key) for key in METRICS]
    execution = Execution(baselines=False)
    return Benchmark(suite, backend_of(name), metrics, execution=execution).run(records)


def text(rate: Rate) -> str:
    return f"{rate.value:.0f} ({rate.low:.0f} to {rate.high:.0f})"


def figures(result: BenchmarkResult, keys: Sequence[str], digits: int = 3) -> str:
    """Return figures with their intervals."""
    cells = []
    for key in keys:
        score = result.metric_scores[key]
        assert score.interval is not None
        low, high = score.interval.low, score.interval.high
        cells.append(f"{score.value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]")
    return " | ".join(cells)


def line(results: Sequence[BenchmarkResult]) -> str:
    """Return cases, AUROC, and by price the cost, the saving and what was deferred.

    ``results`` are those of one reader at every price.
    """
    rows = results[0].evaluation_results
    cells = [f"{len(rows):,}", figures(results[0], METRICS[:1])]
    for result in results:
        deferred = sum(row.abstained for row in result.evaluation_results) / len(rows)
        cost = result.metric_scores["decision_cost"].value
        cells += [f"{cost:.3f}", figures(result, METRICS[2:], 1), f"{deferred:.2f}"]
    return " | ".join(cells)


def main() -> None:
    heads = " | ".join(f"cost at {p} | saved per 100 | deferred" for p in PRICES)
    for task in ("two-months", "six-months"):
        print(f"\n{task}: all patients | n | AUROC | {heads}")
        for name in READERS:
            everyone = [Support2Suite(SuiteConfig(task=task, price=p), cases="all") for p in PRICES]
            print(f"| {name} | {line([ran(one, name) for one in everyone])} |", flush=True)
        suite = Support2Suite(SuiteConfig(task=task, price=NEVER))
        readers = suite.readers
        common = [
            record
            for record in suite.load()
            if all(record.record_id in said for said in readers.values())
        ]
        print(f"{task}: held out and read by all | n | AUROC | {heads}")
        for name in (*FITTED, *READERS):
            priced = [Support2Suite(SuiteConfig(task=task, price=p)) for p in PRICES]
            print(f"| {name} | {line([ran(one, name, common) for one in priced])} |", flush=True)
        results = {name: ran(suite, name, common) for name in (*FITTED, *READERS)}
        for name in FITTED:
            model, physician = (
                items_of_result(results[one], Source(one, model=one)) for one in (name, "physician")
            )
            found = decide_with_reader(model, physician, ScoreOptions(seed=42))
            ways = "; ".join(
                f"{w.name} {text(w.wrong)}, read {w.read.value:.0f}" for w in found.ways
            )
            print(f"{name}: {ways}; beyond reader {text(found.beyond_reader)}", flush=True)
    print(f"\ncertified at a risk of {RISK} on seven disease groups, verified on the eighth")
    for name in ("physician", *FITTED):
        verdicts = [leave_out(name, disease) for disease in DISEASES.values()]
        print(f"{name}: {', '.join(f'{v} {verdicts.count(v)}' for v in sorted(set(verdicts)))}")


def leave_out(name: str, disease: str) -> str:
    """Certify a model without a disease group, and verify it on that group."""
    cases = "all" if name == "physician" else "held-out"
    config = SuiteConfig(price=NEVER)
    seven = Support2Suite(config, without=disease, cases=cases)  # type: ignore[arg-type]
    eighth = Support2Suite(config, only=disease, cases=cases)  # type: ignore[arg-type]
    run, new = (
        items_of_result(ran(one, name), Source(f"{name} {one.account()}", model=name, suite="s"))
        for one in (seven, eighth)
    )
    certificate = certify_run(run, CertifyOptions(risk=RISK))
    if certificate.threshold is None:
        print(f"| {name} | {disease} | no threshold |", flush=True)
        return "no certificate"
    found = verify_run(certificate, new)
    part = found.parts[0]
    low, high = part.risk_interval.low, part.risk_interval.high
    print(
        f"| {name} | {disease} | {part.threshold:.3f} | {part.n_accepted:,} of {part.n_rows:,} | "
        f"{part.risk:.3f} [{low:.3f}, {high:.3f}] | {part.verdict} |".replace("0.", "."),
        flush=True,
    )
    return part.verdict


if __name__ == "__main__":
    main()
