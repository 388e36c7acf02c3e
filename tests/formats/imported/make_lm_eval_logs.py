"""Make small sample files with the real lm_eval, which must be installed where this is run.

    python make_lm_eval_logs.py FOLDER

The model is scripted: it answers by the number of the question. No network, no torch.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

TRIAGE = """
task: ward_triage
dataset_path: json
dataset_kwargs: {data_files: {test: triage.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question {{number}}: {{question}}\\nAnswer:"
doc_to_choice: "{{options}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
"""
DOSE = """
task: dose
dataset_path: json
dataset_kwargs: {data_files: {test: dose.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "Question {{number}}: how many tablets?"
doc_to_target: "{{answer}}"
repeats: 2
generation_kwargs: {until: ["\\n\\n"], do_sample: true}
filter_list:
  - name: number
    filter: [{function: regex, regex_pattern: "(\\\\d+) tablets"}, {function: take_first}]
  - name: whole
    filter: [{function: take_first}]
metric_list: [{metric: exact_match, ignore_case: true}]
metadata: {version: 1.0}
"""
# One log-likelihood per option. Question 4: the long option wins only by length.
LIKELIHOODS = {
    1: (-1.0, -2.0, -4.0),
    2: (-3.0, -0.5, -2.5),
    3: (-2.0, -2.2, -0.1),
    4: (-2.0, -2.6, -9.0),
    5: (-0.7, -3.0, -0.9),
}
OPTIONS = ["home", "the general medical ward", "I don't know"]
ANSWERS = {1: 0, 2: 1, 3: 0, 4: 1, 5: 0}
DOSES = {1: ["2 tablets", "3 tablets"], 2: ["1", "1"], 3: ["I do not know", "4 tablets"]}


def main(folder: Path) -> None:
    folder = folder.resolve()
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Scripted(LM):
        """Answers by the number of the question."""

        asked: ClassVar[dict[int, int]] = {}

        def loglikelihood(self, requests):  # type: ignore[no-untyped-def]
            found = []
            for request in requests:
                context, continuation = request.args
                number = int(re.search(r"Question (\d+)", context)[1])
                found.append((LIKELIHOODS[number][OPTIONS.index(continuation.strip())], False))
            return found

        def generate_until(self, requests):  # type: ignore[no-untyped-def]
            found = []
            for request in requests:
                number = int(re.search(r"Question (\d+)", request.args[0])[1])
                self.asked[number] = self.asked.get(number, 0) + 1
                found.append(DOSES[number][self.asked[number] - 1])
            return found

        def loglikelihood_rolling(self, requests):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    with tempfile.TemporaryDirectory() as work:
        os.environ["HF_HOME"] = f"{work}/hf"
        os.chdir(work)
        lines = [
            {"number": n, "question": "where to?", "options": OPTIONS, "answer": answer}
            for n, answer in ANSWERS.items()
        ]
        Path("triage.jsonl").write_text("\n".join(map(json.dumps, lines)))
        doses = [{"number": n, "answer": answer} for n, answer in ((1, "2"), (2, "1"), (3, "4"))]
        Path("dose.jsonl").write_text("\n".join(map(json.dumps, doses)))
        Path("triage.yaml").write_text(TRIAGE)
        Path("dose.yaml").write_text(DOSE)
        manager = TaskManager(include_path=work, include_defaults=False)
        found = lm_eval.simple_evaluate(
            Scripted(), tasks=["ward_triage", "dose"], task_manager=manager, log_samples=True
        )
        samples = found.pop("samples")
        tracker = EvaluationTracker(output_path=str(folder / "results.json"))
        tracker.general_config_tracker.model_name = "scripted"
        # What names this machine and its folders is not written.
        for name in ("pretty_env_info", "git_hash", "transformers_version", "lm_eval_version"):
            found.pop(name, None)
        for config in found["configs"].values():
            config.pop("dataset_kwargs", None)
            config["metadata"].pop("config_source", None)
        tracker.save_results_aggregated(results=found, samples=samples)
        for name, of_task in samples.items():
            tracker.save_results_samples(task_name=name, samples=of_task)
        os.chdir(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
