from __future__ import annotations

from krisis.backends.schema import reply_schema, tightened
from krisis.data.phq8.task import TASK


def test_a_local_model_is_kept_from_endless_quotes() -> None:
    plain = reply_schema(TASK)["properties"]["evidence_quotes"]
    assert "maxItems" not in plain
    single = tightened(reply_schema(TASK))["properties"]["evidence_quotes"]
    assert (single["maxItems"], single["items"]["maxLength"]) == (2, 100)
    batch = tightened(reply_schema(TASK, 2))["properties"]["results"]["prefixItems"]
    for case in batch:
        assert case["properties"]["evidence_quotes"]["maxItems"] == 2
