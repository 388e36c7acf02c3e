"""A suite, a backend and a metric in a file of one's own run without packaging, and name faults."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
import textwrap
import tomllib
import venv
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import edit_run

from krisis import (
    BackendResponse,
    BaseBackend,
    Benchmark,
    PatientRecord,
    SuiteConfig,
    registry,
)
from krisis.backends.gemini import GeminiBackend
from krisis.backends.openai import OpenAIBackend
from krisis.cli.app import main
from krisis.data.base import RecordListSuite
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import BackendError, InvalidValue, MissingExtra
from krisis.execution.cache import ReplyCache
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics.scoring import metric_from_name
from krisis.runs.load import load_run

SUITE = """
from krisis import BaseDataSuite, PatientRecord, Task
from ward_facts import WARD

class Clinic(BaseDataSuite):
    tasks = {"onset": Task("onset", "Will sepsis begin?", {0: "no", 1: "yes"}, positive=1)}

    def __init__(self, config=None, n_patients: int = 6):
        super().__init__(config)
        self.n_patients = n_patients

    def load(self):
        return [PatientRecord({"lactate": 0.7 * i}, int(i > 3), {"ward": WARD}, f"p{i}")
                for i in range(self.n_patients)]

class Broken(Clinic):
    def load(self):
        return [{}["lactate"]]

class NotPrepared(Clinic):
    def training_records(self):
        raise RuntimeError("the register is closed")

class NeedsWard(Clinic):
    def __init__(self, ward, config=None):
        super().__init__(config)

class AnyOption(Clinic):
    def __init__(self, config=None, **others):
        super().__init__(config, n_patients=others.get("beds", 3))

class NoLoad(BaseDataSuite):
    pass

class Dicts(Clinic):
    def load(self):
        return [{"lactate": 1}]

class Nothing(Clinic):
    def load(self):
        return None

class NoDescription(Clinic):
    def describe(self):
        return None

class TaskList(Clinic):
    tasks = [Task("onset", "Will it begin?", {0: "no", 1: "yes"})]

class Twins(Clinic):
    def load(self):
        return [PatientRecord({"lactate": 4.0}, 1), PatientRecord({"lactate": 4.0}, 1)]

class WithoutConfig(BaseDataSuite):
    def __init__(self):
        super().__init__()

    def load(self):
        return [PatientRecord({}, 1)]
"""
BACKEND = """
from krisis import BackendResponse, BaseBackend

class Rule(BaseBackend):
    name = "lactate-rule"

    def __init__(self, limit: float = 2.0):
        self.limit = limit

    def evaluate(self, record):
        return BackendResponse(int(record.features["lactate"] > self.limit), confidence=0.8)

class Unready(Rule):
    def prepare(self, suite):
        suite.training_records()

class NeedsKey(Rule):
    def __init__(self, address):
        self.address = address

class Numbered(Rule):
    name = 5

class TextRetries(Rule):
    max_retries = "3"

NOT_A_BACKEND = 3
"""
METRIC = """
from krisis.metrics import BaseMetric
from krisis.metrics.forms import Share

class Missed(BaseMetric):
    name, direction = "Missed", "lower"

    def __init__(self, level: float = 0.5):
        self.level = level

    def form(self, table):
        return Share(~table.correct, among=table.confidence >= self.level)
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the user's files into an own folder and forget their modules afterwards."""
    folder = tmp_path / "mine"
    folder.mkdir()
    texts = {"own_suite": SUITE, "own_backend": BACKEND, "own_metrics": METRIC, "ward_facts": ""}
    texts["ward_facts"] = "WARD = 'ICU'"
    texts["own_syntax"] = "def f(:\n"
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_OWN_MODULES", {})
    yield folder
    for name in texts:
        sys.modules.pop(name, None)


@pytest.fixture
def krisis(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Call the command line as the shell would: exit status, output and errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["krisis", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        code = ended.value.code
        return int(code or 0), told.out, told.err

    return call


RUN = ("run", "mine/own_suite.py:Clinic", "--model", "mine/own_backend.py:Rule", "-o", "runs")


def test_a_suite_a_backend_and_a_metric_run_from_files(krisis, tmp_path: Path) -> None:
    code, out, err = krisis(
        *RUN,
        *("--suite-option", "n_patients=9", "--model-option", "limit=2.5", "--max-retries", "1"),
        *("--metric", "accuracy", "--metric", "mine/own_metrics.py:Missed[level=0.6]"),
    )
    assert code == 0, err
    assert "\nclinic / onset · lactate-rule" in out
    assert "Missed [level=0.6]" in out
    (run,) = (tmp_path / "runs").iterdir()
    result = load_run(run)
    assert result.attrition.n_answered == 9
    assert result.metric_scores["missed"].direction == "lower"
    # The run names the files, so that the same run can be made again from it.
    assert krisis("run", "--config", str(run))[0] == 0
    assert krisis("resume", str(run))[0] == 0
    assert krisis("show", str(run), "-m", "mine/own_metrics.py:Missed")[0] == 0


def test_to_look_at_a_run_executes_no_file_that_it_names(krisis, files: Path) -> None:
    assert krisis(*RUN, "--metric", "mine/own_metrics.py:Missed")[0] == 0
    (run,) = Path("runs").iterdir()
    edit_run(run, "DELETE FROM scores")
    for name in ("own_suite", "own_backend", "own_metrics"):
        (files / f"{name}.py").write_text("raise SystemExit('executed')")
        sys.modules.pop(name)
    code, out, _ = krisis("show", str(run), "--verbose")
    assert code == 0
    assert "Accuracy" in out


FAULTS = {
    "load raises": (
        ("run", "mine/own_suite.py:Broken", "--model", "majority"),
        "failed in load (own_suite.py, line 18): KeyError: 'lactate'; fix it (--debug shows",
    ),
    "prepare raises": (
        ("run", "mine/own_suite.py:NotPrepared", "--model", "mine/own_backend.py:Unready"),
        "failed in training_records (own_suite.py, line 22): RuntimeError: the register is closed",
    ),
    "no such file": (("run", "none.py:Clinic", "--model", "majority"), "there is no file"),
    "no such class": (
        ("run", "mine/own_suite.py:Clinik", "--model", "majority"),
        "unknown class of mine/own_suite.py: 'Clinik'; did you mean 'Clinic'?",
    ),
    "no such module": (
        ("run", "nowhere.suites:Clinic", "--model", "majority"),
        "cannot be loaded from nowhere.suites: ModuleNotFoundError: No module named 'nowhere'",
    ),
    "not Python": (
        ("run", "mine/own_syntax.py:Clinic", "--model", "majority"),
        "cannot be loaded from mine/own_syntax.py: SyntaxError",
    ),
    "taken name": (("run", "json.py:Clinic", "--model", "majority"), "there is no file"),
    "not a suite": (
        ("run", "mine/own_backend.py:Rule", "--model", "majority"),
        "'mine/own_backend.py:Rule' is not a suite; name a class derived from BaseDataSuite",
    ),
    "not a backend": (
        ("run", "ckd", "--model", "mine/own_backend.py:NOT_A_BACKEND"),
        "is not a backend; name a class derived from BaseBackend",
    ),
    "unknown option": (
        (*RUN, "--model-option", "limt=3"),
        "has no option 'limt'; it understands: limit",
    ),
    "missing argument of a suite": (
        ("run", "mine/own_suite.py:NeedsWard", "--model", "majority"),
        "missing 1 required positional argument: 'ward'; give arguments as --suite-option",
    ),
    "missing argument of a backend": (
        ("run", "ckd", "--model", "mine/own_backend.py:NeedsKey"),
        "missing 1 required positional argument: 'address'; give arguments as --model-option",
    ),
    "no load": (
        ("run", "mine/own_suite.py:NoLoad", "--model", "majority"),
        "cannot be made: Can't instantiate abstract class NoLoad",
    ),
    "load of dicts": (
        ("run", "mine/own_suite.py:Dicts", "--model", "majority"),
        "load() of the suite 'clinic' must return a list of PatientRecord, not [{'lactate': 1}]",
    ),
    "load of nothing": (
        ("run", "mine/own_suite.py:Nothing", "--model", "majority"),
        "load() of the suite 'clinic' must return a list of PatientRecord, not NoneType",
    ),
    "no description": (
        ("run", "mine/own_suite.py:NoDescription", "--model", "majority", "--limit", "2"),
        "describe() of the suite 'clinic' must return a mapping, not NoneType",
    ),
    "a number for a name": (
        ("run", "mine/own_suite.py:Clinic", "--model", "mine/own_backend.py:Numbered"),
        "the name of a backend must be text, not 5",
    ),
    "a text for a number": (
        ("run", "mine/own_suite.py:Clinic", "--model", "mine/own_backend.py:TextRetries"),
        "retries are numbers of 0 or more, not max_retries='3'",
    ),
    "no configuration": (
        ("run", "mine/own_suite.py:WithoutConfig", "--seed", "3", "--model", "always-abstain"),
        "takes no seed; let its __init__ take config",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_own_code_is_one_sentence(krisis, name: str) -> None:
    arguments, words = FAULTS[name]
    code, out, err = krisis(*arguments)
    assert (code, out) == (2, ""), err
    assert words in err
    assert err.startswith("krisis: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["AnyOption", "TaskList"])
def test_suites_of_unusual_make_run(krisis, name: str, tmp_path: Path) -> None:
    options = ("--suite-option", "beds=5") if name == "AnyOption" else ()
    place = f"mine/own_suite.py:{name}"
    code, _, err = krisis("run", place, *options, "--model", "always-abstain", "-o", "runs")
    assert code == 0, err
    (run,) = (tmp_path / "runs").iterdir()
    assert load_run(run).attrition.n_abstained == (5 if options else 6)


def test_debug_shows_the_traceback(krisis) -> None:
    code, _, err = krisis(*FAULTS["load raises"][0], "--debug")
    assert code == 2
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("krisis: the suite")


def test_a_fault_of_krisis_itself_keeps_its_traceback(krisis, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["krisis"])
    with pytest.raises(KeyError, match="bug"):
        main(lambda arguments, **named: {}["bug"])  # type: ignore[arg-type, return-value]


def test_a_file_with_the_name_of_another_module_is_refused(files: Path) -> None:
    (files / "json.py").write_text("class Clinic: ...")
    with pytest.raises(ValueError, match="has the name of another module, json"):
        registry.find_or_load("suites", str(files / "json.py:Clinic"))


def test_an_object_where_a_class_is_due_is_refused(files: Path) -> None:
    with pytest.raises(InvalidValue, match="is not a metric"):
        metric_from_name("mine/own_backend.py:Rule")


def test_an_sdk_whose_parent_package_is_missing_is_a_missing_extra(monkeypatch) -> None:
    monkeypatch.setattr(GeminiBackend, "sdk", "no_such_parent.genai")
    with pytest.raises(MissingExtra, match=r"pip install '\.\[gemini\]'"):
        GeminiBackend("x")


def stopped_run(benchmark: Benchmark, recorder: Recorder) -> Path:
    """Run until a few rows are there, as a cut run leaves them."""
    benchmark.execution = replace(benchmark.execution, recorder=recorder)
    result = benchmark.run()
    run = Path(str(result.provenance.run_file))
    edit_run(run, "DELETE FROM scores")
    edit_run(run, "DELETE FROM rows WHERE position > (SELECT max(position) / 2 FROM rows)")
    return run


def own(place: str) -> Any:
    return registry.find_or_load("suites" if "suite" in place else "backends", place)


def test_a_run_made_from_objects_is_continued_by_what_the_command_says_to_type(
    krisis, files: Path
) -> None:
    suite, backend = (
        own("mine/own_suite.py:Clinic")(n_patients=20),
        own("mine/own_backend.py:Rule")(2.5),
    )
    run = stopped_run(Benchmark(suite, backend, batch_size=8), Recorder("runs"))
    assert 0 < load_run(run).attrition.n_sent < 20
    for words in (["resume"], ["resume", "--trust"], ["run", "--config"], ["batches", "list"]):
        code, _, err = krisis(*words, str(run))
        assert (code, err.count("\n")) == (2, 1)
        said, _, typed = err.strip().partition("; continue it from Python: ")
        assert said.endswith(f"{run} was made from Python objects")
    names = {"Benchmark": Benchmark, "Execution": Execution, "Recorder": Recorder}
    result = eval(typed, {**names, "suite": suite, "backend": backend})
    assert (result.attrition.n_answered, result.provenance.run_file) == (20, str(run))


def test_a_run_made_from_objects_keeps_the_place_of_its_cache_and_no_settings(
    tmp_path: Path,
) -> None:
    suite = RecordListSuite([PatientRecord({"x": 1}, 1)])
    cache = ReplyCache(tmp_path / "replies.sqlite")
    execution = Execution(recorder=Recorder(tmp_path / "runs"), cache=cache)
    result = Benchmark(suite, Local(), execution=execution).run()
    assert result.provenance.config == {"cache_path": str(cache.path)}


def test_a_key_given_in_python_reaches_no_file(tmp_path: Path) -> None:
    backend = OpenAIBackend(
        "m", api_key="sk-planted-key-0123456789", base_url="http://127.0.0.1:9/v1"
    )
    backend.max_retries = 0
    suite = CKDSuite(SuiteConfig(n_synthetic=2))
    with pytest.raises(BackendError):
        Benchmark(suite, backend, execution=Execution(recorder=Recorder(tmp_path))).run()
    (run,) = tmp_path.iterdir()
    stored = run.read_bytes()
    assert b"openai" in stored
    assert b"planted" not in stored


class Local(BaseBackend):
    name = "local-class"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(1)


# The page "Write your own", typed as it stands there: its files, then its commands.
PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "own.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def page_files(tmp_path: Path, krisis) -> Iterator[Path]:
    names = []
    for name, content in FILE.findall(PAGE):
        names.append(name)
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert len(names) == 6
    yield tmp_path
    for name in names:
        sys.modules.pop(name.removesuffix(".py"), None)


def commands_of_page() -> list[list[str]]:
    lines = "".join(content for kind, content in BLOCK.findall(PAGE) if kind == "bash")
    return [shlex.split(line) for line in lines.splitlines()]


def test_the_page_on_own_code_runs_as_it_is_typed(krisis, page_files: Path) -> None:
    typed = [words[1:] for words in commands_of_page() if words[0] == "krisis"]
    from_files = [words for words in typed if "clinic_suite.py:Clinic" in words]
    assert len(from_files) == 4
    said = [krisis(*words) for words in from_files]
    assert [code for code, _, _ in said] == [0, 0, 0, 0], said
    assert "Missed sepsis" in said[1][1]
    assert "Task sepsis-onset" in said[2][1]
    assert "Expected Calibration Error [n_bins=5]" in said[3][1]
    (imported,) = (words for words in typed if words[0] == "import")
    code, out, err = krisis(*imported)
    assert (code, "3 loaded" in out) == (0, True), err


def test_the_package_of_the_page_is_found_by_its_names(
    krisis, page_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package is its modules and the entry points in its metadata."""
    project = tomllib.loads((page_files / "pyproject.toml").read_text())["project"]
    metadata = page_files / "krisis_clinic-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: krisis-clinic\nVersion: 0.1.0\n")
    groups = project["entry-points"].items()
    lines = [
        line
        for group, points in groups
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(page_files))
    registry.table.cache_clear()
    try:
        code, out, err = krisis("info")
        assert (code, "Invented patients of a ward." in out) == (0, True), err
        (run,) = [words[1:] for words in commands_of_page() if "lactate-rule" in words]
        code, out, err = krisis(*run)
        assert (code, "Missed sepsis" in out) == (0, True), err
    finally:
        registry.table.cache_clear()


@pytest.mark.slow
def test_the_package_of_the_page_installs(page_files: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    venv.create(environment, with_pip=True, system_site_packages=False)
    python = next(environment.glob("bin/python"), environment / "Scripts" / "python.exe")
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(page_files)]
    subprocess.run(install, check=True)
    query = "from importlib.metadata import entry_points as e; print(len(e(group='krisis.suites')))"
    found = subprocess.run([str(python), "-c", query], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1"


@pytest.mark.parametrize("name", ["demo", "local_model", "ward_model"])
def test_every_example_imports(name: str) -> None:
    """What `make demo` runs takes minutes; that it starts is seen in a moment."""
    runpy.run_path(str(Path(__file__).parents[1] / "examples" / f"{name}.py"), run_name="imported")
