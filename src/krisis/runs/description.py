"""What a run is: what was asked for, by whom it was answered, with which versions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from krisis.errors import InvalidFile
from krisis.json_values import JsonMapping, JsonObject, dumps, plain
from krisis.results.account import AskingFacts, Imported
from krisis.runs.schema import storable
from krisis.task_facts import TaskFacts

NEVER = datetime.min.replace(tzinfo=UTC)


class Identity(BaseModel):
    """Everything that can change an answer; two runs are the same when all of it is equal."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    suite: str = ""
    task: str = ""
    features: str = ""
    mode: str = ""
    seed: int | None = None
    data: str = ""
    n_records: int = Field(default=0, ge=0)
    repeats: int = Field(default=1, ge=1)
    costs: JsonObject = {}
    batch_size: int = 1
    stop_when: JsonObject = {}  # a rule asks the records in another order
    asking: JsonObject = {}  # a prompt of the user's own, another way to ask for confidence
    backend: JsonObject = {}
    prompts: dict[str, str] = {}


class RunDescription(BaseModel):
    """Enough to repeat a run, and to refuse to continue another one under its name.

    ``n_cases`` counts the askings: records × repeats.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    run_id: str
    created_at: str
    backend_name: str
    n_cases: int = Field(ge=1)
    identity: Identity = Identity()
    task: TaskFacts | None = None
    suite_description: JsonObject
    config: JsonObject = {}
    versions: dict[str, str] = {}
    git_commit: str | None = None
    stores_features: bool = False
    imported: Imported | None = None
    asking: AskingFacts | None = None
    n_removed: int = Field(default=0, ge=0)  # patients who were taken out of the run

    @property
    def n_claimed(self) -> int:
        """Return the most askings that any of its numbers claims; what is read is bounded by it."""
        identity = self.identity
        return max(self.n_cases, max(identity.n_records, 1) * identity.repeats)

    @property
    def is_reading(self) -> bool:
        """Tell whether a person reads the cases: those not read are not part of the run."""
        return self.identity.backend.get("reading") is True

    @property
    def started_at(self) -> datetime:
        """Return when the run began, by its own clock; long ago where that cannot be read."""
        with suppress(ValueError):
            created_at = datetime.fromisoformat(self.created_at)
            return created_at if created_at.tzinfo else created_at.replace(tzinfo=UTC)
        return NEVER

    def entries(self) -> Iterable[tuple[str, str]]:
        """Yield the lines of the table ``run``: key and JSON."""
        for key, value in plain(self.model_dump(mode="json")).items():
            yield key, storable(dumps(value, indent=None))

    @classmethod
    def of(cls, content: JsonMapping, place: str) -> RunDescription:
        """Return the description that a file holds; keys that are not known are ignored."""
        try:
            return cls.model_validate_json(dumps(content, indent=None))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            raise InvalidFile(f"{place}: {key}: {first['msg']}; was it edited?") from None
