"""What is said in the synthetic interviews; the sentences themselves stand in `wording.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from krisis.json_values import JsonObject

# What is asked and what is replied.
Exchange = Sequence[str]


@dataclass(frozen=True, slots=True)
class Topic:
    """The sentences for one item; ``{often}`` is where the frequency of the symptom stands.

    ``present`` states the symptom, ``absent`` its absence over the two weeks, ``bare`` names it
    without saying how often, ``someone_else`` gives it to another person and ``past`` to a time
    before the two weeks.
    """

    ask: Sequence[str]
    present: Sequence[str]
    absent: Sequence[str]
    bare: Sequence[str]
    someone_else: Sequence[str]
    past: Sequence[str]


_SAID: JsonObject = tomllib.loads(
    (files("krisis.data.phq8") / "wording.toml").read_text(encoding="utf-8")
)
TOPICS: Mapping[str, Topic] = {key: Topic(**said) for key, said in _SAID["topics"].items()}
OFTEN: Mapping[int, Sequence[str]] = {int(score): said for score, said in _SAID["often"].items()}

# Whatever the topic: how things are hedged, denied, taken back, passed over or contradicted.
HEDGES: Sequence[str] = _SAID["hedges"]
DENIALS: Sequence[str] = _SAID["denials"]
CORRECTIONS: Sequence[str] = _SAID["corrections"]
DEFLECTIONS: Sequence[str] = _SAID["deflections"]
NO_RECORD: Sequence[str] = _SAID["no_record"]
CONTRADICTIONS: Sequence[str] = _SAID["contradictions"]
FOLLOW_UPS: Sequence[str] = _SAID["follow_ups"]

OPENINGS: Sequence[Exchange] = _SAID["openings"]
SMALL_TALK: Sequence[Exchange] = _SAID["small_talk"]
CLOSINGS: Sequence[Exchange] = _SAID["closings"]
