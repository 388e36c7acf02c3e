"""Certificates, calibrators, gates, prices and costs of a stranger: what each command does.

Nothing in them is executed, and every number is checked: exit 2 and one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Done, krisis
from tests.invented_runs import invented_rows, result_of, write_run
from tests.stranger import write_payload

from krisis import json_values
from krisis.decisions.certify import _checksum
from krisis.metrics.base import Rows

Content = dict[str, Any]
Change = Callable[[Content, str], object]  # what is changed, and the place of the stranger's code
ESCAPE = "\x1b[2Jcleared"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs of one model, a certificate and a calibrator."""
    folder = tmp_path_factory.mktemp("honest")
    write_run(folder / "first", result_of(invented_rows(160), "m"))
    rows = invented_rows(160, seed=3)
    new = [replace(r, record_id=f"n{r.record_id}", cluster_id=f"n{r.cluster_id}") for r in rows]
    write_run(folder / "second", result_of(Rows(new, rows.answers), "m"))
    certify = ["certify", "first.krisis", "--risk", "0.4", "--max-not-evaluated", "0.1"]
    assert krisis(*certify, "-o", "certificate.json", cwd=folder).returncode == 0
    words = ["calibrate", "first.krisis", "--output", "calibrator.json"]
    assert krisis(*words, cwd=folder).returncode == 0
    return folder


@dataclass
class Stranger:
    """Code that leaves a canary, and a folder from which files are given to commands."""

    honest: Path
    folder: Path
    place: str

    def gives(self, text: str, name: str, *words: str) -> Done:
        """Run a command with a file in the place of FILE; nothing may be executed."""
        (self.folder / name).write_text(text, encoding="utf-8")
        paths = {"FILE": str(self.folder / name), "NEW": str(self.folder / "new.html")}
        done = krisis(*(paths.get(word, word) for word in words), cwd=self.honest)
        assert not (self.folder / "canary").exists()
        for unwanted in ("Traceback", "Warning", "\x1b"):
            assert unwanted not in done.stdout + done.stderr
        return done

    def certificate(self, change: Change) -> str:
        """Return the honest certificate with other content and a checksum that fits."""
        content = json.loads((self.honest / "certificate.json").read_text())
        del content["check"]
        change(content, self.place)
        return json.dumps({**content, "check": _checksum(content)})

    def calibrator(self, change: Change) -> str:
        """Return the honest calibrator with other content."""
        content = json.loads((self.honest / "calibrator.json").read_text())
        change(content, self.place)
        return json.dumps(content)


@pytest.fixture
def stranger(honest: Path, tmp_path: Path) -> Stranger:
    """Return a stranger who knows the runs of the user."""
    return Stranger(honest, tmp_path, write_payload(tmp_path, tmp_path / "canary"))


def is_refused(done: Done, word: str) -> None:
    """Check for exit 2 and one sentence that names what is wrong."""
    assert done.returncode == 2, done
    assert done.stderr.startswith("krisis: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert word in done.stderr


def parts(**values: object) -> Change:
    return lambda content, _: [part.update(values) for part in content["parts"]]


def no_change(content: Content, place: str) -> None:
    """Leave everything as it is."""


VERIFY = ("verify", "FILE", "second.krisis")
REPORT = ("report", "second.krisis", "--certificate", "FILE", "-o", "NEW")
FORGED: dict[str, tuple[Change, str]] = {
    "a suite as code": (lambda c, place: c["identity"].update(suite=place), "of the suite"),
    "a model with escapes": (lambda c, _: c["identity"].update(model=ESCAPE), "of the model"),
    "a score as code": (lambda c, place: c.update(confidence=place), "confidence variant"),
    "a score of another suite": (lambda c, _: c.update(confidence="llm"), "is missing"),
    "a method as code": (lambda c, place: c.update(method=place), "method"),
    "a loss as code": (lambda c, place: c.update(loss=place), "unknown loss"),
    "groups as code": (lambda c, place: c.update(by=[place]), "unknown group"),
    "a risk above 1": (lambda c, _: c.update(risk=7.0), "risk"),
    "a risk below 0": (lambda c, _: c.update(risk=-1.0), "risk"),
    "a delta below 0": (lambda c, _: c.update(delta=-3.0), "delta"),
    "a seed below 0": (lambda c, _: c.update(seed=-(10**30)), "seed"),
    "no rows per patient": (lambda c, _: c.update(rows_per_patient=0), "rows_per_patient"),
    "too many rows per patient": (lambda c, _: c.update(rows_per_patient=10**30), "rows_per"),
    "costs below 0": (lambda c, _: c.update(loss="cost", costs=[[0, 1, -5.0]]), "costs"),
    "a price of 2": (lambda c, _: c.update(price=2.0), "price"),
    "a coverage of 9": (parts(coverage=9.0), "coverage"),
    "counts below 0": (parts(n_rows=-5), "n_rows"),
    "a text as threshold": (parts(threshold="0.5"), "threshold"),
    "no threshold": (parts(threshold=None), "names no threshold"),
    "no parts": (lambda c, _: c.update(parts=[]), "names no threshold"),
    "another key": (lambda c, place: c.update(code=place), "code"),
}


@pytest.mark.parametrize("words", [VERIFY, REPORT], ids=["verify", "report"])
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_certificate_is_refused(
    name: str, words: tuple[str, ...], stranger: Stranger
) -> None:
    change, word = FORGED[name]
    is_refused(stranger.gives(stranger.certificate(change), "c.json", *words), word)
    assert not (stranger.folder / "new.html").exists()


@pytest.mark.parametrize("words", [VERIFY, REPORT], ids=["verify", "report"])
def test_a_number_beyond_all_numbers_is_refused(words: tuple[str, ...], stranger: Stranger) -> None:
    # A checksum is of strict JSON, in which infinity is null.
    text = stranger.certificate(parts(threshold=None)).replace(
        '"threshold": null, "laxest"', '"threshold": 1e400, "laxest"'
    )
    is_refused(stranger.gives(text, "c.json", *words), "finite number")


def test_texts_of_a_certificate_are_shown_with_their_hidden_characters(stranger: Stranger) -> None:
    done = stranger.gives(stranger.certificate(parts(group=ESCAPE)), "c.json", *VERIFY)
    assert done.returncode in (0, 1)
    assert "[U+001B][2Jcleared" in done.stdout
    change: Change = lambda c, _: c.update(assumptions=["<script>alert(1)</script>"])  # noqa: E731
    assert stranger.gives(stranger.certificate(change), "c.json", *REPORT).returncode == 0
    assert "<script>alert(1)" not in (stranger.folder / "new.html").read_text()


def test_the_honest_artifacts_are_taken(stranger: Stranger) -> None:
    assert stranger.gives(stranger.certificate(no_change), "c.json", *VERIFY).returncode == 0
    assert stranger.gives(stranger.calibrator(no_change), "c.json", *SELECTIVE).returncode == 0


SELECTIVE = ("selective", "second.krisis", "--calibration", "FILE", "--bootstrap-resamples", "50")
CERTIFY = ("certify", "second.krisis", "--risk", "0.4", "--calibration", "FILE")
DECIDE = ("decide", "second.krisis", "--curve", "--calibration", "FILE")
CALIBRATORS: dict[str, tuple[Change, str]] = {
    "a method as code": (lambda c, place: c.update(method=place), "do not belong together"),
    "a model as code": (lambda c, place: c["model"].update(method=place), "model"),
    "a weight beyond all numbers": (lambda c, _: c["model"].update(weights=[1e308]), "weights"),
    "an intercept beyond all": (lambda c, _: c["model"].update(intercept=-1e308), "intercept"),
    "a scale of 0": (lambda c, _: c["model"].update(scales=[0.0]), "scales"),
    "a scale below 0": (lambda c, _: c["model"].update(scales=[-1.0]), "scales"),
    "many weights": (lambda c, _: c["model"].update(weights=[0.1] * 10_000), "one number per"),
    "scores of no span": (lambda c, _: c.update(score_scale=-1e308), "score_scale"),
    "another key": (lambda c, place: c.update(code=place), "code"),
    "another kind": (lambda c, place: c.update(kind=place), "kind"),
}


@pytest.mark.parametrize("words", [SELECTIVE, CERTIFY, DECIDE], ids=lambda words: words[0])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_forged_calibrator_is_refused(
    name: str, words: tuple[str, ...], stranger: Stranger
) -> None:
    change, word = CALIBRATORS[name]
    is_refused(stranger.gives(stranger.calibrator(change), "c.json", *words), word)


def test_a_feature_that_names_code_is_only_a_missing_feature(stranger: Stranger) -> None:
    def change(content: Content, place: str) -> None:
        missing = {"default": 0.5, "n_items": 0}
        content |= {
            "features": [place],
            "input_scale": {place: [0, 1]},
            "missing": {place: missing},
        }

    words = (*CERTIFY, "--max-not-evaluated", "0.1")
    is_refused(stranger.gives(stranger.calibrator(change), "c.json", *words), "carries the feature")


@pytest.mark.parametrize("words", [VERIFY, SELECTIVE, CERTIFY, ("show", "FILE")])
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"kind": NaN}', "is not JSON"),
        ("[]", "not an object"),
        ("", "is not complete JSON"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "is not complete JSON"),
    ],
    ids=["deep", "NaN", "a list", "nothing", "no JSON"],
)
def test_what_is_no_json_object_is_refused(
    text: str, word: str, words: tuple[str, ...], stranger: Stranger
) -> None:
    is_refused(stranger.gives(text, "c.json", *words), word)


@pytest.mark.parametrize("words", [VERIFY, REPORT, SELECTIVE, CERTIFY, ("show", "FILE")])
def test_a_json_file_of_any_length_is_not_read(
    words: tuple[str, ...], stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_values, "LARGEST_FILE", 1_000_000)
    text = stranger.certificate(no_change) + " " * 1_000_000
    is_refused(stranger.gives(text, "c.json", *words), "of more than 1,000,000 is not read")


BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n"
    for old, new in zip("abcde", "bcdef", strict=True)
)
RUN = ("run", "ckd", "--model", "openai/m", "--prices", "FILE", "--limit", "2", "--dry-run")
CHECK = ("check", "second.krisis", "--gate", "FILE", "--max-not-evaluated", "0.1")
PLAN = ("run", "--config", "FILE", "--dry-run")
COST = ("decide", "second.krisis", "--costs", "FILE", "--max-not-evaluated", "0.1")
YAML = {
    "a gate with code": (CHECK, "require: ['{place} >= 0.5']", "unknown metric"),
    "a gate against any file": (
        CHECK,
        "no_worse: ['accuracy by 0.1']\nagainst: {folder}/payload",
        "{folder}/payload",
    ),
    "a gate that holds no sentences": (CHECK, "require: 7", "must hold sentences, not 7"),
    "a gate with a block twice": (CHECK, "require: [a]\nrequire: [b]", "written twice"),
    "a gate that grows": (CHECK, f"{BOMB}require: *f", "holds more than"),
    "a gate with a Python object": (
        CHECK,
        "require: !!python/object/apply:pathlib.Path.touch [canary]",
        "could not determine a constructor",
    ),
    "prices below 0": (RUN, "openai/m: {{input: -1, output: 2}}", "from 0 to 1,000,000"),
    "endless prices": (RUN, "openai/m: {{input: .inf, output: 2}}", "not inf"),
    "prices that are no numbers": (RUN, "openai/m: {{input: .nan, output: 2}}", "not nan"),
    "prices beyond all numbers": (RUN, "openai/m: {{input: 1.0e+308, output: 2}}", "not 1e+308"),
    "a price that is no table": (RUN, "openai/m: 7", "exactly the keys input and output"),
    "prices as a list": (RUN, "- 1", "must hold a price table"),
    "a plan that is no list": (PLAN, "suite: ckd\nmodels: 7", "must be a list"),
    "a plan with unknown keys": (PLAN, "suite: ckd\nmodels: [guideline]\ncode: x", "code"),
    "a plan that grows": (PLAN, f"{BOMB}suite: *f", "holds more than"),
    "endless costs": (COST, "costs: {{0: {{1: .inf}}}}\nprice: 1", "not inf"),
    "costs for unknown answers": (COST, "costs: {{0: {{7: 1}}}}\nprice: 0.1", "7"),
}


@pytest.mark.parametrize("name", YAML)
def test_a_hostile_yaml_file_is_refused(
    name: str, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user-0123456789")
    words, text, word = YAML[name]
    values = {"place": stranger.place, "folder": stranger.folder}
    done = stranger.gives(text.format(**values) + "\n", "f.yaml", *words)
    is_refused(done, word.format(**values))
