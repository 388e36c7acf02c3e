"""Put kidney cases to a language model on this machine, beside the baselines.

The model has 135 million parameters: it shows that the machinery works, not clinical skill.
"""

from __future__ import annotations

import math
import sys

from rich.console import Console
from rich.table import Table

from krisis import Benchmark, SuiteConfig
from krisis.backends.catalogue import backend_from_name
from krisis.backends.local import PULLABLE
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import RunFailed
from krisis.pulling import pull

NAMES = ("local/smollm2", "majority", "logistic", "guideline")
COLUMNS = {
    "accuracy": "Accuracy",
    "selective_accuracy": "Selective accuracy",
    "answer_rate": "Coverage",
    "deferral_alignment": "Deferral alignment",
    "decision_cost": "Decision Cost",
}


def main(n_records: int) -> None:
    """Obtain the model, ask everyone about the same cases and print one table."""
    console = Console(width=110)
    try:
        with console.status("Obtaining SmolLM2-135M-Instruct (98 MB) …"):
            pull(PULLABLE["smollm2"])
    except RunFailed as error:
        console.print(f"No language model this time: {error}")
        return
    suite = CKDSuite(SuiteConfig(task="staging"))
    records = suite.load()[:n_records]
    table = Table("Backend", title=f"CKD staging, the same {n_records} synthetic patients")
    for words in COLUMNS.values():
        table.add_column(words, justify="right")
    for name in NAMES:
        with console.status(f"Asking {name} …"):
            result = Benchmark(suite, backend_from_name(name), batch_size=4).run(records)
        values = [result.metric_scores[key].value for key in COLUMNS]
        table.add_row(name, *("undefined" if math.isnan(v) else f"{v:.3f}" for v in values))
    console.print(table)
    console.print("A model of 135 million parameters shows the machinery, not clinical skill.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
