"""The tables of the page on SUPPORT2: readers, baselines, decision skill, teams, certificates.

Run `python -m benchmarks.support2` after `krisis pull support2`; it takes about two minutes.
"""

from __future__ import annotations

from benchmarks.decision_skill import skill_cells
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
from krisis.verbs.decide.reader import decide_with_reader

PRICES = (0.1, 0.2)
RISK = 0.2
FITTED = ("logistic", "boosting")
READERS = ("physician", "reader/support-model")


def backend_of(name: str) -> BaseBackend:
    if name in FITTED:
        return registry.find("backends", name)(least_confidence=0.0)
    return registry.find("backends", name.partition("/")[0])(
        **({"model": "support-model"} if "/" in name else {})
    )


def ran(
    suite: Support2Suite, name: str, records: list[PatientRecord] | None = None
) -> BenchmarkResult:
    metrics = [metric_from_name(key) for key in ("disease_auroc", "brier_score", "accuracy")]
    execution = Execution(baselines=False)
    return Benchmark(suite, backend_of(name), metrics, execution=execution).run(records)


def figures(result: BenchmarkResult) -> str:
    cells = []
    for score in result.metric_scores.values():
        assert score.interval is not None
        cells.append(f"{score.value:.3f} [{score.interval.low:.3f}, {score.interval.high:.3f}]")
    return f"{len(result.evaluation_results):,} | " + " | ".join(cells).replace("0.", ".")


def main() -> None:
    for task in ("two-months", "six-months"):
        everyone = Support2Suite(SuiteConfig(task=task), cases="all")
        print(f"\n{task}: all patients | n | AUROC | Brier | accuracy")
        for name in READERS:
            print(f"| {name} | {figures(ran(everyone, name))} |", flush=True)
        suite = Support2Suite(SuiteConfig(task=task))
        readers = suite.readers
        common = [
            record
            for record in suite.load()
            if all(record.record_id in said for said in readers.values())
        ]
        print(f"{task}: held out and read by all | n | AUROC | Brier | accuracy | price …")
        results = {name: ran(suite, name, common) for name in (*FITTED, *READERS)}
        for name, result in results.items():
            skill = [skill_cells(result, price) for price in PRICES]
            print(f"| {name} | {figures(result)} | {' | '.join(skill)} |", flush=True)
        for name in FITTED:
            model, physician = (
                items_of_result(results[one], Source(one, model=one)) for one in (name, "physician")
            )
            found = decide_with_reader(model, physician, ScoreOptions(seed=42))
            ways = "; ".join(
                f"{w.name} {w.wrong.text}, read {w.read.value:.0f}" for w in found.ways
            )
            print(f"{name}: {ways}; beyond reader {found.beyond_reader.text}", flush=True)
    print(f"\ncertified at a risk of {RISK} on seven disease groups, verified on the eighth")
    for name in ("physician", *FITTED):
        verdicts = [leave_out(name, disease) for disease in DISEASES.values()]
        print(f"{name}: {', '.join(f'{v} {verdicts.count(v)}' for v in sorted(set(verdicts)))}")


def leave_out(name: str, disease: str) -> str:
    """Certify a model without a disease group, and verify it on that group."""
    cases = "all" if name == "physician" else "held-out"
    seven = Support2Suite(without=disease, cases=cases)  # type: ignore[arg-type]
    eighth = Support2Suite(only=disease, cases=cases)  # type: ignore[arg-type]
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
