"""`krisis selective` and `krisis calibrate` from the outside, and the scripts that call them."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.invented_runs import invented_rows, result_of, write_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.errors import MissingExtra, UserError
from krisis.metrics import EvaluationResult
from krisis.pages.charts.files import check_figure_file
from krisis.results.result import BenchmarkResult
from krisis.verbs.selective.command import with_progress

ROOT = Path(__file__).parents[3]
_SPEC = importlib.util.spec_from_file_location(
    "phq8_run_files", ROOT / "tests" / "confidence" / "phq8_run_files.py"
)
run_files = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(run_files)

FAST = ["--bootstrap-resamples", "300"]


def krisis(*arguments):
    return CliRunner().invoke(app, [str(part) for part in arguments])


def sentence(*arguments):
    """Return the one sentence with which a command refuses."""
    result = krisis(*arguments)
    assert isinstance(result.exception, UserError), result.output
    assert result.exception.exit_code == 2
    text = str(result.exception)
    assert "\n" not in text
    return text


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run_files.run_file(21, modes=("zero_shot", "few_shot"))))
    return path


def evaluated(run, *arguments):
    result = krisis("selective", run, "--format", "json", *FAST, *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_became_of_the_items_is_in_the_words_of_outcomes(tmp_path):
    rows = [*invented_rows(30)]
    rows[3] = replace(rows[3], error="cut off", failure_class="malformed_reply", abstained=False)
    rows[4] = replace(rows[4], error="no reply", failure_class="timeout", abstained=False)
    result_of(rows).save(tmp_path / "run.json")
    artifact = evaluated(tmp_path / "run.json")
    counts = artifact["population"]
    n_missing = sum(row.outcome == "not_evaluated" for row in rows)
    assert (counts["items_no_answer"], counts["items_not_evaluated"]) == (1, n_missing)
    shown = krisis("selective", tmp_path / "run.json", *FAST).stdout
    said = f"{counts['items_predicted']} answered / {counts['items_abstained']} abstained / "
    shown = " ".join(shown.split())
    assert f"{said}1 no answer; {n_missing} more not evaluated; " in shown
    assert "failed" not in shown


def test_the_artifact_has_every_key(run):
    artifact = evaluated(run, "--mode", "few_shot")
    assert set(artifact) >= {
        "schema_version",
        "created_at",
        "inputs",
        "population",
        "loss",
        "confidence_variants",
        "comparison",
    }
    assert artifact["inputs"][0] == {
        "path": str(run),
        "run_id": "synthetic",
        "git_commit": "0" * 40,
        "mode": "few_shot",
    }
    counts = artifact["population"]
    assert counts["participants_total"] == 21
    assert (counts["participants_included"], counts["participants_failed"]) == (20, 1)
    assert counts["items_total"] == 160
    assert counts["coverage_end_to_end"] == counts["items_predicted"] / 168
    assert artifact["loss"] == {
        "name": "abs_norm",
        "definition": "abs(pred - gt) / 3",
        "raw_multiplier": 3,
    }
    assert artifact["comparison"] == {
        "enabled": False,
        "intersection_only": False,
        "deltas": None,
    }
    variant = artifact["confidence_variants"]["llm"]
    assert set(variant) >= {
        "cmax",
        "aurc_full",
        "augrc_full",
        "aurc_optimal",
        "augrc_optimal",
        "eaurc",
        "eaugrc",
        "aurc_achievable",
        "interpretation",
        "aurc_at_c",
        "augrc_at_c",
        "mae_at_coverage",
        "bootstrap",
        "curve",
    }
    assert list(variant["mae_at_coverage"]) == [f"0.{i}0" for i in range(1, 10)]
    assert set(variant["bootstrap"]["ci95"]) >= {
        "aurc_full",
        "augrc_full",
        "aurc_at_c",
        "augrc_at_c",
        "cmax",
        "mae_at_coverage",
    }
    low, high = variant["bootstrap"]["ci95"]["aurc_full"]
    assert low < variant["aurc_full"] < high
    assert variant["bootstrap"]["drop_rate"]["aurc_full"] == 0.0
    assert len(variant["curve"]["coverage"]) == len(variant["curve"]["threshold"])


def test_losses_differ_by_the_span_of_the_scale(run):
    absolute = evaluated(run, "--mode", "few_shot", "--loss", "abs")["confidence_variants"]["llm"]
    normed = evaluated(run, "--mode", "few_shot")["confidence_variants"]["llm"]
    assert absolute["aurc_full"] == pytest.approx(3 * normed["aurc_full"])


def test_the_same_seed_gives_the_same_figures(run):
    one, two = (evaluated(run, "--mode", "few_shot", "--seed", 7) for _ in range(2))
    assert one["confidence_variants"] == two["confidence_variants"]


def test_legacy_draws_reproduce_plain_percentiles(run):
    artifact = evaluated(run, "--mode", "few_shot", "--rng", "legacy", "--loss", "abs")
    variant = artifact["confidence_variants"]["llm"]
    assert variant["bootstrap"]["method"] == "percentile"
    results = json.loads(run.read_text())["experiments"][1]["results"]["results"]
    people = sorted((r for r in results if r["success"]), key=lambda r: r["participant_id"])
    drawn = np.random.RandomState(42).randint(0, 20, size=(300, 20))
    shares = [
        np.mean([[v is not None for v in people[i]["predicted_items"].values()] for i in row])
        for row in drawn
    ]
    expected = np.percentile(shares, [2.5, 97.5])
    np.testing.assert_allclose(variant["bootstrap"]["ci95"]["cmax"], expected, atol=1e-15)


@pytest.mark.parametrize("method", ["percentile", "expanded_percentile"])
def test_every_method_gives_an_interval_around_the_area(run, method):
    compared = ["--mode", "zero_shot", "--mode", "few_shot", "--interval-method", method]
    artifact = evaluated(run, *compared)
    for side in ("input_0", "input_1"):
        variant = artifact["confidence_variants"]["llm"][side]
        assert variant["bootstrap"]["methods"]["aurc_full"] == method
        low, high = variant["bootstrap"]["ci95"]["aurc_full"]
        assert low < variant["aurc_full"] < high
    delta = artifact["comparison"]["deltas"]["llm"]["aurc_full"]
    assert delta["ci95"][0] < delta["delta"] < delta["ci95"][1]


def test_all_variants_share_their_resamples_and_the_absent_are_listed(run):
    artifact = evaluated(run, "--mode", "few_shot", "--confidence", "all")
    variants = artifact["confidence_variants"]
    assert len(variants) == 13
    assert variants["llm"]["bootstrap"] == variants["total_evidence"]["bootstrap"]
    assert set(artifact["variants_not_evaluated"]) == {
        "stated",
        *("rationale", "p_true", "top_k", "two_step"),
        "calibrated",
        "verbalized_calibrated",
    }


def test_two_modes_are_compared_on_the_same_resamples(run):
    artifact = evaluated(run, "--mode", "zero_shot", run, "--mode", "few_shot")
    variant = artifact["confidence_variants"]["llm"]
    deltas = artifact["comparison"]["deltas"]["llm"]
    for key in ("aurc_full", "augrc_full", "cmax", "eaurc", "aurc_achievable"):
        expected = variant["input_1"][key] - variant["input_0"][key]
        assert deltas[key]["delta"] == pytest.approx(expected)
    assert deltas["aurc_full"]["ci95"][0] < deltas["aurc_full"]["ci95"][1]
    assert deltas["aurc_achievable"]["reason"] == "this_figure_is_not_resampled"
    common = min(variant[side]["cmax"] for side in ("input_0", "input_1"))
    assert deltas["at_common_coverage"]["coverage"] == common


def test_a_run_compared_with_itself_has_no_difference(run):
    artifact = evaluated(run, "--mode", "few_shot", run)
    delta = artifact["comparison"]["deltas"]["llm"]["aurc_full"]
    assert delta["delta"] == 0.0


def test_differing_participants_are_an_error_unless_intersected(run, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps(run_files.run_file(31)))
    both = [run, "--mode", "few_shot", other, "--mode", "few_shot"]
    text = sentence("selective", *both)
    assert "20 and 30 successful participants, 20 of them in both" in text
    assert "--intersection-only" in text
    result = krisis("selective", *both, "--intersection-only", "--format", "json", *FAST)
    artifact = json.loads(result.stdout)
    assert artifact["comparison"]["participants_compared"] == 20
    counts = artifact["population"]["input_1"]
    compared = {key: n for key, n in artifact["population"].items() if "input" not in key}
    assert compared == {
        "participants_total": 31,
        "participants_included": 20,
        "participants_failed": 2,  # another one in each input
        "items_total": 160,
    }
    assert artifact["population"]["input_0"]["participants_total"] == 21
    assert counts["participants_total"] == 31
    assert [counts[f"participants_{part}"] for part in ("included", "failed", "left_out")] == [
        20,
        1,
        10,
    ]
    shown = " ".join(krisis("selective", *both, "--intersection-only", *FAST).output.split())
    assert (
        "1 of 31 participants NOT EVALUATED; 10 left out because the other run lacks them" in shown
    )


def test_runs_that_disagree_about_a_right_answer_are_not_compared(run):
    content = json.loads(run.read_text())
    truths = content["experiments"][1]["results"]["results"][3]["ground_truth_items"]
    truths["Tired"] = (truths["Tired"] + 1) % 4
    run.write_text(json.dumps(content))
    message = sentence("selective", run, "--mode", "zero_shot", "--mode", "few_shot")
    assert "participant 303, item Tired has the right answer" in message
    assert "different data" in message


def test_runs_of_two_questionnaires_are_not_compared(run, tmp_path):
    other = tmp_path / "other.json"
    content = run_files.run_file(21)
    content["scale"] = {"items": list(run_files.ITEMS), "lowest": 0, "highest": 4}
    other.write_text(json.dumps(content))
    both = [run, "--mode", "few_shot", other]
    assert "span 3 and 4" in sentence("selective", *both)


def _stages(path, *answers, suite=None):
    rows = [
        EvaluationResult(answer, truth, confidence=0.5 + i / 20, record_id=f"r{i}")
        for i, (answer, truth) in enumerate(answers)
    ]
    BenchmarkResult(rows, {}, suite or {}, "b").save(path)
    return path


def test_two_krisis_runs_are_divided_by_one_span(tmp_path):
    near = _stages(tmp_path / "a.json", (1, 1), (2, 2), (2, 3), (1, 2))
    far = _stages(tmp_path / "b.json", (1, 1), (5, 2), (3, 3), (1, 2))
    artifact = evaluated(near, far, "--loss", "abs_norm")
    assert artifact["loss"]["raw_multiplier"] == 4
    curves = artifact["confidence_variants"]["stated"]
    risks = [curves[side]["curve"]["selective_risk"][-1] for side in ("input_0", "input_1")]
    assert risks == [2 / 4 / 4, 4 / 4 / 4]


def test_the_span_of_phq8_is_that_of_the_scale_not_of_the_scores_seen(tmp_path):
    suite = {"suite": "phq8", "mode": "zero_shot"}
    path = _stages(tmp_path / "a.json", (1, 1), (2, 2), (1, 2), (0, 2), suite=suite)
    content = json.loads(path.read_text())
    content["extras"]["task_facts"] = {
        "name": "phq8",
        "answers": [[score, str(score)] for score in range(4)],
        "ordered": True,
    }
    path.write_text(json.dumps(content))
    artifact = evaluated(path, "--loss", "abs_norm")
    assert artifact["loss"]["definition"] == "abs(pred - gt) / 3"
    assert artifact["inputs"][0]["mode"] == "zero_shot"


def test_items_that_a_run_still_owes_are_counted_and_shown(tmp_path):
    rows = [EvaluationResult(1, i % 2, confidence=0.6, record_id=f"r{i}") for i in range(6)]
    run = write_run(tmp_path / "run", BenchmarkResult(rows, {}, {}, "b"), n_cases=10)
    assert evaluated(run)["population"]["items_not_asked"] == 4
    shown = krisis("selective", run, *FAST).output
    assert "INCOMPLETE: 4 records not asked yet; 6 patients, 6 records" in shown


def test_a_krisis_run_of_another_mode_is_refused(tmp_path):
    suite = {"suite": "phq8", "mode": "zero_shot"}
    path = _stages(tmp_path / "a.json", (1, 1), (2, 2), suite=suite)
    message = sentence("selective", path, "--mode", "few_shot")
    assert "was made in mode 'zero_shot', not 'few_shot'" in message
    plain = _stages(tmp_path / "b.json", (1, 1), (2, 2))
    assert "has no modes" in sentence("selective", plain, "--mode", "few_shot")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--confidence", "lmm"], "did you mean 'llm'"),
        (["--loss", "square"], "unknown loss"),
        (["--coverage-grid", "0.1,x"], "numbers with commas"),
        (["--coverage-grid", "0.101,0.102"], "the same to 2 decimals"),
        (["--coverage-grid", "0,0.5"], "must be above 0"),
        (["--area-coverage", "1.5"], "must be above 0"),
        (["--bootstrap-resamples", "-1"], "n_resamples must be 0 or more"),
        (["--seed", "-1"], "seed must be between"),
        (["--rng", "mersenne"], "rng must be 'default' or 'legacy'"),
        (["--interval-method", "normal"], "unknown interval method"),
        (["--confidence", "calibrated"], "--calibration ARTIFACT"),
        (["--plot", "curves.html"], "a figure is a .pdf, .svg or .png file, not 'curves.html'"),
    ],
)
def test_bad_options_are_one_sentence(run, arguments, message):
    common = ["selective", run, "--mode", "few_shot", *FAST]
    assert message in sentence(*common, *arguments)


def test_too_many_inputs_or_modes(run):
    assert "3 runs" in sentence("selective", *[run] * 3)
    text = sentence("selective", run, *["--mode", "few_shot"] * 3)
    assert "3 modes came with 1 runs" in text


def test_a_mode_is_asked_for_with_the_list_of_modes(run):
    assert "zero_shot, few_shot" in sentence("selective", run)


def test_nan_of_a_predicted_item_is_refused_by_the_variant_that_needs_it(run):
    content = json.loads(run.read_text())
    person = content["experiments"][0]["results"]["results"][2]
    answered = next(k for k, score in person["predicted_items"].items() if score is not None)
    person["item_signals"][answered]["token_msp"] = math.nan
    run.write_text(json.dumps(content))
    message = sentence("selective", run, "--mode", "zero_shot", "--confidence=token_msp")
    assert f"participant 302, item {answered}: the signal token_msp" in message
    assert "'token_msp'" in message
    assert "llm" in evaluated(run, "--mode", "zero_shot")["confidence_variants"]
    both = evaluated(run, "--mode", "zero_shot", "--confidence", "all")
    assert both["variants_not_evaluated"]["token_msp"] == message
    assert len(both["confidence_variants"]) == 12
    shown = krisis("selective", run, "--mode", "zero_shot", "--confidence", "all", *FAST).output
    assert f"Not evaluated: token_msp: {message}" in " ".join(shown.split())


def test_nan_of_an_abstained_item_does_not_matter(run):
    content = json.loads(run.read_text())
    person = content["experiments"][0]["results"]["results"][2]
    person["predicted_items"]["Sleep"] = None
    person["item_signals"]["Sleep"]["token_msp"] = math.nan
    run.write_text(json.dumps(content))
    evaluated(run, "--mode", "zero_shot", "--confidence", "token_msp")


def _with_all(run, position=1, **changes):
    content = json.loads(run.read_text())
    for result in content["experiments"][position]["results"]["results"]:
        result.update(json.loads(json.dumps(changes)))
    run.write_text(json.dumps(content))


def test_an_all_abstained_run_is_null_with_a_reason_and_never_zero(run):
    _with_all(run, success=True, predicted_items=dict.fromkeys(run_files.ITEMS))
    variant = evaluated(run, "--mode", "few_shot", "--confidence", "all")["confidence_variants"][
        "llm"
    ]
    for key in ("aurc_full", "augrc_full", "aurc_optimal", "eaurc", "aurc_achievable"):
        assert variant[key] is None
    assert variant["reason"] == "no_predicted_items"
    assert variant["aurc_at_c"]["value"] is None
    assert variant["bootstrap"]["ci95"]["aurc_full"] is None
    assert variant["bootstrap"]["reasons"]["aurc_full"] == "the_figure_is_undefined"
    assert variant["bootstrap"]["drop_rate"]["aurc_full"] == 1.0
    assert variant["cmax"] == 0.0
    shown = krisis("selective", run, "--mode", "few_shot", *FAST)
    assert "All areas are undefined: nothing was answered" in shown.output
    asked = [run, "--mode", "few_shot", "--format", "csv", *FAST]
    lines = csv.DictReader(io.StringIO(krisis("selective", *asked).output))
    cmax = next(line for line in lines if line["key"] == "cmax")
    assert (cmax["value"], cmax["text"]) == ("0.0", "")


def test_coverage_of_an_all_abstained_run_is_still_compared(run):
    _with_all(run, success=True, predicted_items=dict.fromkeys(run_files.ITEMS))
    _with_all(run, position=0, success=True)
    artifact = evaluated(run, "--mode", "few_shot", "--mode", "zero_shot")
    delta = artifact["comparison"]["deltas"]["llm"]["cmax"]
    assert 0 < delta["ci95"][0] < delta["delta"] < delta["ci95"][1]


def test_an_all_failed_run_is_null_with_a_reason(run):
    _with_all(run, success=False)
    artifact = evaluated(run, "--mode", "few_shot")
    assert artifact["population"]["participants_failed"] == 21
    assert artifact["population"]["coverage_end_to_end"] == 0.0
    variant = artifact["confidence_variants"]["llm"]
    assert variant["aurc_full"] is None
    assert variant["cmax"] is None
    assert variant["bootstrap"]["ci95"]["cmax"] is None


def test_gaps_are_null_where_nothing_was_lost(run):
    content = json.loads(run.read_text())
    for result in content["experiments"][1]["results"]["results"]:
        result["predicted_items"] = dict(result["ground_truth_items"])
    run.write_text(json.dumps(content))
    variant = evaluated(run, "--mode", "few_shot")["confidence_variants"]["llm"]
    assert variant["aurc_full"] == 0.0
    assert variant["interpretation"]["aurc_gap_pct"] is None
    assert variant["interpretation"]["achievable_gain_pct"] is None
    low, high = variant["bootstrap"]["ci95"]["aurc_full"]
    assert low == 0.0 < high  # seeing no error is not certainty


def test_the_table_names_failures_method_and_risks(run):
    result = krisis("selective", run, "--mode", "few_shot", "--coverage-grid", "0.1,1", *FAST)
    assert result.exit_code == 0
    text = " ".join(result.output.split())
    assert "1 of 21 participants NOT EVALUATED" in text
    assert "95 %, allowing for errors not seen; 20 participants, seed 42" in text
    assert "Risk at coverage" in text
    assert "Risk at coverage –: fewer cases were" in text
    assert "Totals (run): Total MAE" in text


def test_two_runs_are_shown_with_their_differences(run):
    arguments = ["--mode", "zero_shot", "--mode", "few_shot", "--confidence", "llm,token_msp"]
    result = krisis("selective", run, *arguments, *FAST)
    assert result.exit_code == 0, result.output
    text = result.output
    assert "run (few_shot) minus run (zero_shot), on the same participants" in text
    assert "input_" not in text
    assert "which both reach" in text
    assert "permutation_t: studentised permutation of patients" in text
    assert text.count("NOT EVALUATED") == 2


def test_a_perfect_ranking_with_ties_is_explained(tmp_path):
    content = run_files.run_file(17)
    for result in content["experiments"][0]["results"]["results"]:
        for key in run_files.ITEMS:
            right = key != "Sleep"
            truth = result["ground_truth_items"][key]
            result["predicted_items"][key] = truth if right else (truth + 1) % 4
            result["item_signals"][key]["llm_evidence_count"] = int(right)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(content))
    variant = evaluated(path, "--loss", "error")["confidence_variants"]["llm"]
    assert variant["eaurc"] < 0
    shown = krisis("selective", path, "--loss", "error", *FAST)
    words = " ".join(shown.output.split())
    assert "a perfect ranking with ties can have an excess below 0" in words


def test_nothing_predicted_cannot_be_drawn(run, tmp_path):
    _with_all(run, success=True, predicted_items=dict.fromkeys(run_files.ITEMS))
    plot = tmp_path / "curves.svg"
    assert "no curve to draw" in sentence(
        "selective", run, "--mode", "few_shot", *FAST, "--plot", plot
    )
    assert not plot.exists()


@pytest.mark.slow
def test_a_picture_goes_to_a_new_folder_or_is_refused_in_one_sentence(run, tmp_path):
    plot = tmp_path / "new" / "curves.png"
    common = ["selective", run, "--mode", "few_shot", *FAST, "--plot"]
    assert krisis(*common, plot).exit_code == 0
    assert plot.read_bytes().startswith(b"\x89PNG")
    drawn = tmp_path / "curves.svg"
    assert krisis(*common, drawn).exit_code == 0
    svg = drawn.read_text(encoding="utf-8")  # AURC and AUGRC are reported, and both are drawn
    for among in ("the answers kept", "all cases"):
        assert svg.count(f"among {among}</text>") == 1
    assert "cannot be written" in sentence(*common, run / "curves.png")


def test_runs_without_a_common_participant_cannot_be_compared(run, tmp_path):
    other = tmp_path / "other.json"
    content = run_files.run_file(21)
    for result in content["experiments"][0]["results"]["results"]:
        result["participant_id"] += 1000
    other.write_text(json.dumps(content))
    both = [run, "--mode", "few_shot", other, "--mode", "few_shot"]
    assert "no successful participant in common" in sentence(
        "selective", *both, "--intersection-only"
    )


def test_progress_is_shown_on_a_terminal_only(monkeypatch):
    with with_progress(10, quiet=False) as progress:
        assert progress is None
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with with_progress(10, quiet=False) as progress:
        assert progress is not None
        progress(10)


def test_outputs_are_written_once_and_never_over(run, tmp_path):
    output = tmp_path / "a.json"
    arguments = [run, "--mode", "few_shot", *FAST, "--output", output]
    assert krisis("selective", *arguments).exit_code == 0
    before = output.read_text()
    assert "exists already" in sentence("selective", *arguments)
    assert output.read_text() == before
    fresh = tmp_path / "b.json"
    both = [run, "--mode", "few_shot", *FAST, "--output", fresh, "--plot", output]
    assert ".pdf, .svg or .png" in sentence("selective", *both)
    assert not fresh.exists()


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_curves_are_drawn_without_a_browser(run, tmp_path, suffix):
    path = tmp_path / f"curves.{suffix}"
    result = krisis(
        "selective",
        run,
        "--mode",
        "few_shot",
        *FAST,
        "--plot",
        path,
        "--confidence",
        "llm,token_msp",
    )
    assert result.exit_code == 0, result.output
    content = path.read_bytes()
    if suffix != "svg":
        assert content.startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[suffix])
    else:
        text = content.decode()
        for word in ("mean loss among the answers kept", "coverage", "llm", "token_msp"):
            assert word in text


def test_a_krisis_run_is_evaluated_by_the_same_command(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        EvaluationResult(
            int(rng.random() < 0.7),
            1,
            bool(rng.random() < 0.2),
            float(rng.random()),
            cluster_id=f"p{i // 2}",
            record_id=str(i),
        )
        for i in range(60)
    ]
    path = tmp_path / "result.json"
    BenchmarkResult(rows, {}, {}, "b").save(path)
    artifact = evaluated(path)
    assert list(artifact["confidence_variants"]) == ["stated"]
    assert artifact["loss"]["name"] == "error"
    assert artifact["population"]["participants_total"] == 30
    assert artifact["totals"] == [None]


def test_a_run_is_evaluated_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = krisis("run", "ckd", "--model", "guideline", "--n-synthetic", "40")
    assert made.exit_code == 0, made.output
    (path,) = (tmp_path / "runs").iterdir()
    artifact = evaluated(path)
    assert artifact["inputs"][0]["run_id"].startswith(path.stem[-6:])
    assert artifact["population"]["items_total"] == 40
    assert artifact["confidence_variants"]["stated"]["aurc_full"] is not None


def test_few_participants_are_pointed_out(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run_files.run_file(9)))
    assert "Only 8 participants" in krisis("selective", path, *FAST).output


def test_a_krisis_run_with_an_answer_without_confidence_names_the_patient(tmp_path):
    rows = [
        EvaluationResult(1, 1, confidence=0.5, cluster_id="a"),
        EvaluationResult(1, 1, cluster_id="patient-7"),
    ]
    path = tmp_path / "result.json"
    BenchmarkResult(rows, {}, {}, "b").save(path)
    assert "patient-7" in sentence("selective", path)


def test_a_confidence_asked_for_apart_is_calibrated_and_not_the_stated_one(
    tmp_path,
):
    rows = [
        EvaluationResult(
            i % 2,
            1,
            confidence=i / 40,
            cluster_id=str(i),
            signals={"stated_confidence": 0.9, "p_true_confidence": i / 40},
        )
        for i in range(40)
    ]
    path = tmp_path / "result.json"
    BenchmarkResult(rows, {}, {}, "b").save(path)
    made = krisis("calibrate", path, "--output", tmp_path / "c.json")
    assert made.output.startswith("logistic on p_true_confidence → correctness: 40 records")
    rows = [replace(row, confidence=0.5, signals={"llm_evidence_count": None}) for row in rows]
    BenchmarkResult(rows, {}, {}, "b").save(tmp_path / "same.json")
    problem = sentence("selective", tmp_path / "same.json", "--confidence", "all")
    assert "no variant can be evaluated" in problem
    assert "stated: it is 0.5 for each of the 40" in problem


def test_calibrating_and_applying(run, tmp_path):
    train = tmp_path / "train.json"
    train.write_text(json.dumps(run_files.run_file(31, seed=9)))
    artifact = tmp_path / "temperature.json"
    fitted = krisis(
        "calibrate",
        train,
        "--calibrator",
        "temperature",
        "--signals",
        "verbalized_confidence",
        "--output",
        artifact,
    )
    assert fitted.exit_code == 0, fitted.output
    assert "cross-fitted in 5 folds" in fitted.output
    assert "no news" in fitted.output
    result = krisis(
        "selective",
        run,
        "--mode",
        "few_shot",
        "--confidence",
        "verbalized,verbalized_calibrated",
        "--calibration",
        artifact,
        *FAST,
    )
    assert result.exit_code == 0, result.output
    assert "was fitted on 20 of the participants" in result.output
    assert "no news" in result.output


def test_items_without_a_feature_are_counted_by_both_commands(run, tmp_path):
    content, artifact = json.loads(run.read_text()), tmp_path / "c.json"
    people = [one["results"]["results"] for one in content["experiments"]]
    asked = [[k for k, v in one[0]["predicted_items"].items() if v is not None] for one in people]
    for results, items in zip(people, asked, strict=True):
        results[0]["item_signals"][items[0]].pop("token_pe")
    run.write_text(json.dumps(content))
    few = [run, "--mode", "few_shot"]
    fitted = krisis("calibrate", *few, "--signals", "token_pe", "--output", artifact)
    assert fitted.exit_code == 0, fitted.output
    default = json.loads(artifact.read_text())["missing"]["token_pe"]["default"]
    assert f"token_pe is missing on 1 items, taken as {default:g}" in fitted.output
    zero = [run, "--mode", "zero_shot", "--confidence", "calibrated"]
    options = ["--calibration", artifact, "--bootstrap-resamples", "0"]
    shown = krisis("selective", *zero, *options)
    assert f"(run): token_pe is missing on 1 items, taken as {default:g}." in shown.output
    written = json.loads(krisis("selective", *zero, *options, "--format", "json").stdout)[
        "calibrator"
    ]
    assert written == {
        "path": str(artifact),
        "missing": [{"token_pe": {"default": default, "n_items": 1}}],
    }


def test_calibrating_refuses_what_it_cannot_learn(run, tmp_path):
    output = tmp_path / "c.json"
    common = ["calibrate", run, "--mode", "few_shot", "--output", output]
    assert "no item of" in sentence(*common, "--signals", "sleepiness")
    assert "did you mean" in sentence(*common, "--calibrator", "isotonical")
    assert "seed must be 0 or more, not -1" in sentence(*common, "--seed", "-1")
    assert not output.exists()


def test_a_folder_gets_an_artifact_under_a_name_that_no_file_has(run, tmp_path):
    arguments = ["selective", run, "--mode", "few_shot", "-o", tmp_path, *FAST]
    assert "run.few_shot.selective.json" in krisis(*arguments).output
    first = (tmp_path / "run.few_shot.selective.json").read_bytes()
    again = krisis(*arguments, "--format", "json")
    assert "run.few_shot.selective-2.json" in again.stderr
    assert json.loads(again.stdout) == json.loads(
        (tmp_path / "run.few_shot.selective-2.json").read_text()
    )
    assert (tmp_path / "run.few_shot.selective.json").read_bytes() == first


def test_a_chart_that_cannot_be_drawn_is_refused_before_any_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingExtra, match="pip install '"):
        check_figure_file(tmp_path / "curves.svg")


def test_no_resamples_give_points_without_intervals(run):
    variant = evaluated(run, "--mode", "few_shot", "--bootstrap-resamples", "0")
    llm = variant["confidence_variants"]["llm"]
    assert llm["aurc_full"] > 0
    assert llm["bootstrap"]["ci95"]["aurc_full"] is None
    assert llm["bootstrap"]["reasons"]["aurc_full"] == "no_resamples_wanted"


@pytest.mark.parametrize(
    "method", [[], ["--interval-method", "expanded_percentile"], ["--rng", "legacy"]]
)
def test_no_resamples_give_differences_without_intervals(run, method):
    pair = ["--mode", "zero_shot", run, "--mode", "few_shot"]
    options = ["--bootstrap-resamples", "0", *method]
    delta = evaluated(run, *pair, *options)["comparison"]["deltas"]["llm"]["aurc_full"]
    assert delta["delta"] != 0
    assert delta["ci95"] is None
    assert delta["reason"] == "no_resamples_wanted"
    shown = krisis("selective", run, *pair, *options).output
    assert "No intervals: no resamples were wanted." in shown
    assert "[" not in shown


def test_percentiles_of_published_intervals_are_still_there(run):
    method = evaluated(run, "--mode", "few_shot", "--rng", "legacy")
    legacy = method["confidence_variants"]["llm"]["bootstrap"]
    assert legacy["method"] == "percentile"
    named = evaluated(run, "--mode", "few_shot", "--interval-method", "percentile")
    low, high = named["confidence_variants"]["llm"]["bootstrap"]["ci95"]["aurc_full"]
    assert 0 < low < high
