"""Random rows of four kinds of task, drawn the same way in every version of krisis."""

from __future__ import annotations

import numpy as np

from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.table import Answers
from krisis.task_facts import TotalScale

TASKS = {
    "two_numbers": Answers((0, 1), positive=1),
    "four_levels": Answers(
        (0, 1, 2, 3), ordered=True, positive=3, default_loss="abs_norm", total=TotalScale(4, 1, 6)
    ),
    "three_words": Answers(("mild", "severe", "none")),
    "no_task": None,
}


def random_rows(kind: str, n_rows: int = 240) -> Rows:
    """Return rows with right and wrong answers, none, unknown ones, abstentions and lost calls."""
    generator = np.random.default_rng([7, sorted(TASKS).index(kind)])
    task = TASKS[kind]
    allowed = (0, 1) if task is None else task.allowed
    rows = []
    for index in range(n_rows):
        truth = allowed[int(generator.integers(len(allowed)))]
        draw, confidence = generator.random(), round(float(generator.beta(4, 2)), 3)
        guess = truth if draw < 0.3 + 0.5 * confidence else allowed[index % len(allowed)]
        kind_of_row = generator.random()
        abstained, failed = kind_of_row < 0.12, kind_of_row > 0.95
        odd = None if kind_of_row > 0.93 else guess
        due = (None, True, False)[int(generator.integers(3))]
        rows.append(
            EvaluationResult(
                None if failed else odd,
                truth,
                abstained,
                None if failed else confidence,
                metadata={
                    "ckd_stage": int(generator.integers(1, 5)),
                    "item": f"item-{index % 4}",
                    **({} if due is None else {"should_abstain": due}),
                },
                record_id=f"record-{index}",
                cluster_id=f"patient-{index // 4}",
                error="no reply in time" if failed else None,
                failure_class="timeout" if failed else "",
            )
        )
    return Rows(rows, task)
