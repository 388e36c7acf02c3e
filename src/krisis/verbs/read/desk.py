"""A person reads the cases of a suite one by one, and what they answer is a run.

A reader is a backend called ``reader/NAME``: the run file, its recorder and every verb over it are
those of a model. What is shown is the model's own prompt without the form of the reply
(`backends.prompt.build_reader_text`). An answer is on disk before the next case is shown.

With a model's run, its answer is shown once the reader's own is stored, and a second answer is
asked for. The second answers are a run of their own, ``reader/NAME with MODEL``: first and second
are compared as any two runs of the same cases are, and a session that was cut between the two
goes on with the second.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from krisis import __version__
from krisis.answers import AnswerSet, Label
from krisis.backends.base import BackendResponse
from krisis.backends.prompt import build_reader_text
from krisis.benchmark import ask_baselines
from krisis.data.base import BaseDataSuite, Records
from krisis.data.checks import check_records
from krisis.errors import InvalidFile, InvalidValue
from krisis.execution.assembly import described
from krisis.execution.batches import (
    Case,
    are_synthetic,
    cases_of,
    stored_cases,
    with_distinct_ids,
)
from krisis.execution.engine import StoragePolicy
from krisis.execution.recorder import Opening, Recorder
from krisis.json_values import plain
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.labels import Answers
from krisis.metrics.scoring import score_all
from krisis.results.account import Provenance, RunFacts, Spending
from krisis.results.attrition import Attrition
from krisis.results.base import BenchmarkResult, baseline_scores
from krisis.results.call_totals import CallTotals
from krisis.results.loading import load_result
from krisis.runs.description import Identity
from krisis.runs.load import list_runs, read_description

_NAME = re.compile(r"[^\W_][\w .+-]{0,39}")
LONGEST_COMMENT = 5000


@dataclass(frozen=True, slots=True)
class ShownCase:
    """What a reader sees of a case: the text of a model's prompt, and the answers to choose from.

    ``number`` is its place in the reader's order, ``step`` 1 for the reader's own answer and 2 for
    the one after the model's was shown: then ``own`` and ``shown`` say what both answered.
    """

    number: int
    n_cases: int
    position: int
    step: int
    about: str
    findings: str
    answers: tuple[tuple[Label, str], ...]
    own: str = ""
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reader answered: one of the allowed answers with a confidence, or an abstention."""

    answer: Label | None
    confidence: float | None = None
    comment: str = ""
    seconds: float | None = None


class ReaderRun:
    """The run of one reader, opened or continued: a case has a row once it was answered."""

    def __init__(
        self, suite: BaseDataSuite, records: Records, name: str, out: Path, *, shown: str = ""
    ) -> None:
        """``shown`` is the id of the run whose answers the reader is shown, if any."""
        self.name = name
        self._suite, self._records = suite, records
        self._task = suite.task.facts()
        self._review = StoragePolicy(suite)
        self._started_at = datetime.now(UTC)
        self._started = time.monotonic()
        config = suite.config
        identity = Identity(
            suite=suite.name,
            task=self._task.name,
            features=str(config.features),
            seed=config.seed,
            data=records.content_hash,
            n_records=len(records),
            costs=plain(self._task.costs.to_json()),
            backend={"backend": name, "reading": True, **({"shown": shown} if shown else {})},
        )
        opening = Opening(
            identity,
            self._task,
            described(suite, None),
            name,
            cases=stored_cases(records),
            n_cases=len(records),
            is_synthetic=are_synthetic(records),
            may_store_features=suite.stores_text,
        )
        known = _run_of(identity, out)
        self._recorder = Recorder(out) if known is None else Recorder.resume(known)
        self._description = opening.suite_description
        earlier = self._recorder.begin(opening)
        self.rows: dict[int, EvaluationResult] = dict(earlier.rows)
        self._elapsed_before = earlier.elapsed_seconds

    @property
    def path(self) -> Path:
        """Return the file of the run."""
        assert self._recorder.path is not None
        return self._recorder.path

    def add(self, case: Case, reply: Reply, prompt: str) -> None:
        """Keep an answer; it is on disk when this returns."""
        response = self._review.response(
            case,
            BackendResponse(
                reply.answer,
                abstained=reply.answer is None,
                confidence=reply.confidence,
                raw_response=reply.comment,
                prompt_mode="single",
                latency_seconds=reply.seconds,
            ),
        )
        row = self._review.row(case, response, prompt=prompt)
        self._recorder.append([case.row_place], [row], CallTotals())
        self._recorder.flush()
        self.rows[case.position] = row

    def close(self) -> None:
        """Score what was read, beside the baselines on the same cases, and close the file."""
        try:
            if self.rows:
                self._recorder.finish(self._result())
        finally:
            self._recorder.close()

    def _result(self) -> BenchmarkResult:
        rows = Rows([self.rows[position] for position in sorted(self.rows)], Answers.of(self._task))
        metrics = usual_metrics(self._suite.task.metrics)
        baselines = ask_baselines(self._suite, [self._records[at] for at in sorted(self.rows)])
        elapsed = self._elapsed_before + time.monotonic() - self._started
        facts = RunFacts(
            provenance=self._recorder.signed(
                Provenance(
                    task_facts=self._task,
                    seed=self._suite.config.seed,
                    suite_content_hash=self._records.content_hash,
                    krisis_version=__version__,
                    started_at=self._started_at.isoformat(timespec="seconds"),
                )
            ),
            spending=Spending.of(CallTotals(), rows, elapsed_seconds=elapsed),
            attrition=Attrition.of(rows),
            baseline_rows=baselines.rows,
            baselines=baseline_scores(baselines.rows, metrics),
            baselines_left_out=baselines.left_out,
        )
        read = {"read": f"{len(rows):,} of {len(self._records):,}"}
        description = {**self._description, **(read if len(rows) < len(self._records) else {})}
        scores = score_all(metrics, rows, intervals=BootstrapOptions())
        return BenchmarkResult(rows, scores, description, self.name, facts=facts)


def _run_of(identity: Identity, out: Path) -> Path | None:
    """Return the run of this reader on these cases, if there is one."""
    for path in list_runs(out):
        try:
            if read_description(path).identity == identity:
                return path
        except InvalidFile:
            continue
    return None


class ReadingDesk:
    """Hands the cases of a suite to a reader, one by one, in an order of the reader's own.

    ``limit`` takes the first records of the suite, as of a run, so that all readers of a study
    read the same cases; a larger one later goes on with the same run. The order is drawn from the
    reader's name and the ids. ``with_run`` is a model's run whose answers are shown.
    """

    def __init__(
        self,
        suite: BaseDataSuite,
        reader: str,
        *,
        out: Path = Path("runs"),
        limit: int | None = None,
        with_run: Path | None = None,
    ) -> None:
        if not _NAME.fullmatch(reader):
            raise InvalidValue(
                f"{reader!r} is no name for a reader; give 1 to 40 letters, digits, spaces or "
                ". + - such as --reader dr-a"
            )
        if not suite.stores_text:
            raise InvalidValue(
                f"the data of the suite {suite.name!r} are restricted and may not be shown to "
                "readers here; use data that you may show"
            )
        records = with_distinct_ids(suite.records())
        check_records(records, suite.task)
        self.suite, self.reader = suite, reader
        self._answers = suite.task.answer_set
        if not self._answers.allowed:
            raise InvalidValue(
                f"the task {suite.task.name!r} has no fixed answers, so there is no form to fill in"
            )
        cases = cases_of(records[:limit] if limit else records)
        self._shown: Mapping[str, str] = {}
        model, run_id = "", ""
        if with_run is not None:
            model, run_id, self._shown = _answers_shown(with_run, suite, self._answers)
            cases = [case for case in cases if case.record.record_id in self._shown]
            if not cases:
                raise InvalidValue(
                    f"{with_run} has no answer to any of these cases; name a run of the same "
                    "suite, task and seed"
                )
        self.cases = sorted(cases, key=lambda case: _place(reader, case))
        self.first = ReaderRun(suite, records, f"reader/{reader}", out)
        self.second = None
        if with_run is not None:
            name = f"reader/{reader} with {model}"
            try:
                self.second = ReaderRun(suite, records, name, out, shown=run_id)
            except BaseException:
                self.first.close()
                raise
        self._began: dict[tuple[int, int], float] = {}
        self._spent: dict[tuple[int, int], float] = {}

    @property
    def n_read(self) -> int:
        """Count the cases that are done."""
        done = self.first.rows if self.second is None else self.second.rows
        return sum(case.position in done for case in self.cases)

    @property
    def paths(self) -> list[Path]:
        """Return the files that are written."""
        return [run.path for run in (self.first, self.second) if run is not None]

    def show(self) -> ShownCase | None:
        """Return the case to be read now, and let its clock run; None when all are read."""
        found = self._next()
        if found is None:
            return None
        number, case, step = found
        self._began.setdefault((case.position, step), time.monotonic())
        text = build_reader_text(self.suite.task, case.record.features, context=case.record.context)
        own = self.first.rows.get(case.position)
        return ShownCase(
            number=number,
            n_cases=len(self.cases),
            position=case.position,
            step=step,
            about=text.system,
            findings=text.user,
            answers=tuple((one, self._words(one)) for one in self._answers.allowed),
            own="" if step == 1 or own is None else _said(own, self._answers),
            shown="" if step == 1 else self._shown[case.record.record_id],
        )

    def pause(self) -> None:
        """Stop the clock of the case that is shown."""
        for key, began in self._began.items():
            self._spent[key] = self._spent.get(key, 0.0) + time.monotonic() - began
        self._began.clear()

    def answer(
        self,
        position: int,
        step: int,
        *,
        answer: str | None,
        confidence: float | None,
        comment: str = "",
    ) -> bool:
        """Keep the answer to the case that is shown; None abstains.

        False where another case is shown by now: a page that was sent twice changes nothing.
        """
        found = self._next()
        if found is None or (found[1].position, found[2]) != (position, step):
            return False
        chosen = None if answer is None else self._answers.match(answer)
        if answer is not None and chosen is None:
            raise InvalidValue(
                f"{answer!r} is not one of the allowed answers ({self._answers.listed()})"
            )
        if chosen is None and confidence is not None:
            raise InvalidValue("an abstention has no confidence; leave it empty")
        if chosen is not None and (confidence is None or not 0 <= confidence <= 1):
            raise InvalidValue("an answer needs a confidence between 0 and 100 %")
        if len(comment) > LONGEST_COMMENT:
            raise InvalidValue(
                f"a comment has at most {LONGEST_COMMENT:,} letters, and this one {len(comment):,}"
            )
        _, case, step = found
        self.pause()
        seconds = self._spent.pop((position, step), None)
        text = build_reader_text(self.suite.task, case.record.features, context=case.record.context)
        run = self.first if step == 1 else self.second
        assert run is not None
        run.add(case, Reply(chosen, confidence, comment, seconds), text.template)
        return True

    def close(self) -> None:
        """Score and close what was read."""
        try:
            self.first.close()
        finally:
            if self.second is not None:
                self.second.close()

    def _next(self) -> tuple[int, Case, int] | None:
        for number, case in enumerate(self.cases, start=1):
            if case.position not in self.first.rows:
                return number, case, 1
            if self.second is not None and case.position not in self.second.rows:
                return number, case, 2
        return None

    def _words(self, answer: Label) -> str:
        return self._answers.meanings.get(answer) or str(answer)


def _place(reader: str, case: Case) -> bytes:
    return hashlib.sha256(f"{reader}\n{case.record.record_id}".encode()).digest()


def _said(row: EvaluationResult, answers: AnswerSet) -> str:
    """Return what a row answered, in words."""
    if row.outcome == "abstained":
        return "abstained"
    if row.prediction is None or row.outcome != "answered":
        return "gave no answer"
    found = answers.match(row.prediction)
    words = str(row.prediction) if found is None else answers.meanings.get(found) or str(found)
    sure = "" if row.confidence is None else f", confidence {100 * row.confidence:.0f} %"
    return f"{words}{sure}"


def _answers_shown(
    path: Path, suite: BaseDataSuite, answers: AnswerSet
) -> tuple[str, str, dict[str, str]]:
    """Return the name and id of a model's run, and what it answered, by record."""
    result = load_result(path)
    made = result.provenance
    if (made.suite, made.task) != (suite.name, suite.task.name):
        raise InvalidValue(
            f"{path} is of {made.suite} / {made.task}, and {suite.name} / {suite.task.name} is "
            "read; name a run of the same suite and task"
        )
    said = {
        row.record_id: _said(row, answers)
        for row in result.rows
        if row.outcome != "not_evaluated" and not row.metadata.get("sample_index")
    }
    return result.backend_name, made.run_id or str(path), said
