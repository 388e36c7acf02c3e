"""What an audit hands on: its groups, and how stable the answers are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from krisis.display import Documented
from krisis.json_values import JsonObject
from krisis.verbs.audit.groups import GroupAudit
from krisis.verbs.audit.stability import Stability


@dataclass(frozen=True)
class Audit(Documented):
    """What an audit found: by group, and between askings of one case."""

    groups: GroupAudit
    stability: Stability | None = None
    builder: ClassVar[str] = "krisis.verbs.audit.page:audit_document"

    def to_json(self) -> JsonObject:
        """Return the findings under groups and stability."""
        parts = {"groups": self.groups, "stability": self.stability}
        found = {name: part.to_json() for name, part in parts.items() if part is not None}
        return {"kind": "krisis.audit", "schema_version": 1, **found}
