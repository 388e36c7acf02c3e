"""What a column is by its name: the words of `vocabulary.toml` in any hospital's spelling."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from krisis.json_values import JsonObject
from krisis.texts import stated_in

# A name that speaks of the past, a risk or a family is no outcome, however strong its words.
_AGAINST = 3.0
# A name may say which values it has, as in "Décédé (O/N)" and "AKI?", or that it is a number: "N°".
_ANSWER_HINT = re.compile(
    r"\(?\b(?:[YJOS]/N|N/[YJOS]|0/1|1/0|(?:yes|ja|oui|s[ií]|sì)\s?/\s?(?:non|no|nein|nee))\b\)?|\?$",
    re.IGNORECASE,
)
_NUMBER_SIGN = re.compile(r"\bN(?:[°º]|\.(?=\s?[^\W\d]))\s*", re.IGNORECASE)


@cache
def vocabulary() -> JsonObject:
    """Return the vocabulary."""
    return stated_in(__package__, "vocabulary.toml")


def plain_text(text: str) -> str:
    """Return a text in small letters without accents.

    >>> plain_text("Größe"), plain_text("Décès")
    ('grosse', 'deces')
    """
    bare = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("œ", "oe"))
    return "".join(sign for sign in bare if not unicodedata.combining(sign)).lower()


@cache
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, cut at capitals, digits and separators.

    >>> words_of("hospitalExpireFlag"), words_of("MORT30J"), words_of("Décès_à_J28")
    (('hospital', 'expire', 'flag'), ('mort', '30', 'j'), ('deces', 'a', 'j', '28'))
    >>> words_of("Décédé (O/N)"), words_of("N° séjour")
    (('decede', 'yn'), ('nr', 'sejour'))
    """
    name = _NUMBER_SIGN.sub("nr ", _ANSWER_HINT.sub(" yn ", name))
    bare = unicodedata.normalize("NFKD", name.replace("ß", "ss").replace("œ", "oe"))
    bare = "".join(sign for sign in bare if not unicodedata.combining(sign))
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+", bare)
    return tuple(part.lower() for part in parts)


def matches(name: str, entry: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether a name holds a word, a part of a word or a pair of words of an entry."""
    words = words_of(name)
    whole = "".join(words)
    known = set(entry.get("words", ()))
    if whole in entry.get("names", ()):
        return True
    if known & {*words, whole} or known & {a + b for a, b in pairwise(words)}:
        return True
    if any(part in word for part in entry.get("parts", ()) for word in (*words, whole)):
        return True
    return any(all(any(w.startswith(one) for w in words) for one in pair) for pair in _pairs(entry))


def is_whole(name: str, entry: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether a name is a word of an entry and nothing else.

    >>> is_whole("Heart rate", {"words": ["heartrate"]}), is_whole("HR_max", {"words": ["hr"]})
    (True, False)
    """
    return "".join(words_of(name)) in (*entry.get("words", ()), *entry.get("names", ()))


def _in_compound(name: str, entry: Mapping[str, Sequence[str]]) -> bool:
    """Tell whether a word of an entry begins or ends a longer word of a name."""
    long = tuple(word for word in entry.get("words", ()) if len(word) >= 5)
    begins = (*long, *(word for word in entry.get("words", ()) if len(word) == 4))
    return any(word.startswith(begins) or word.endswith(long) for word in words_of(name))


def _pairs(entry: Mapping[str, Sequence[str]]) -> Sequence[Sequence[str]]:
    return entry.get("pairs", ())


def has_role(name: str, role: str) -> bool:
    """Tell whether a name is one that columns of a role bear."""
    return matches(name, vocabulary()["role"][role])


def is_called_id(name: str) -> bool:
    """Tell whether a name ends as identifiers do."""
    entry, words = vocabulary()["role"]["id"], words_of(name)
    letters = [word for word in words if not word.isdigit()] or [""]
    is_long = len(letters[-1]) > 5 and letters[-1].endswith(tuple(entry["endings"]))
    return letters[-1] in entry["words"] or is_long or letters[0] in entry["beginnings"]


@dataclass(frozen=True, slots=True)
class OutcomeName:
    """What the name of a column says about an outcome: how clearly, and in which words."""

    score: float
    label: str = ""
    question: str = ""
    yes: str = ""
    no: str = ""
    event_is_no: bool = False
    # False for a vital status: whether 1 is alive or dead, only its owner knows.
    says_what_yes_means: bool = True
    # Whether the entry is the whole name, so that its words say all that the name says.
    is_whole: bool = False


@cache
def outcome_name(name: str) -> OutcomeName:
    """Return how clearly a name speaks of an outcome; a score of 0 is not at all.

    >>> outcome_name("hospital_expire_flag").score > outcome_name("diabetes").score > 0
    True
    >>> outcome_name("family_history_stroke").score, outcome_name("sodium").score
    (0.0, 0.0)
    """
    known, words = vocabulary(), words_of(name)
    found = [
        entry for entry in known["outcome"] if matches(name, entry) or _in_compound(name, entry)
    ]
    if not found:
        return OutcomeName(0.0)
    flags = {*known["beside"]["flags"]} & {*words}
    score = max(float(entry["strength"]) for entry in found) + 0.5 * min(len(flags), 2)
    against = known["against"]
    is_later = bool({*known["beside"]["during"]} & {*words})
    if {*against["admission"]} & {*words} and not is_later:
        score -= _AGAINST
    if matches(name, {"words": against["words"], "parts": against["parts"]}):
        score -= _AGAINST
    if {*against["time"]} & {*words} or any(w.endswith(("datum", "date", "time")) for w in words):
        score -= 2 * _AGAINST
    # The general entries lend their strength, the others their words.
    named = [entry for entry in found if entry.get("yes") or entry["label"] not in _GENERAL]
    says = named[0] if named else {}
    return OutcomeName(
        max(score, 0.0),
        says.get("label", ""),
        says.get("question", ""),
        says.get("yes", ""),
        says.get("no", ""),
        says.get("event_is_no", False),
        says.get("says_what_yes_means", True),
        is_whole=is_whole(name, says),
    )


_GENERAL = ("Outcome", "Complication", "Deterioration", "Recurrence", "Diagnosis", "Disease")


@dataclass(frozen=True, slots=True)
class MeasureName:
    """What a column measures: the label people would write, and units with their usual values."""

    label: str
    unit: str = ""
    units: Sequence[Mapping[str, object]] = ()
    plausible: Sequence[float] = ()


def measure_name(name: str) -> MeasureName:
    """Return the label of a column, which is its name unless an entry is the whole of it.

    A unit at the end of the name is not part of it.

    >>> measure_name("Krea (µmol/l)").label, measure_name("Krea (µmol/l)").unit
    ('Creatinine', 'umol/L')
    >>> measure_name("HF (1/min)").label, measure_name("plasma_glucose_mg_dl").label
    ('HF (1/min)', 'plasma_glucose_mg_dl')
    >>> measure_name("SpO2 (%)").unit, measure_name("plasma_glucose_mg_dl").unit
    ('%', 'mg/dL')
    """
    spelled = re.sub("[µμ]", "u", name).replace("%", " pct").replace("°", " deg ")
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spelled)
    plain = re.sub(r"[^0-9a-zA-Z]+", "_", plain_text(spelled))
    plain = plain.strip("_").lower()
    units: Mapping[str, str] = vocabulary()["units"]
    unit, rest = "", name
    for ending in sorted(units, key=len, reverse=True):
        if plain.endswith(f"_{ending}"):
            unit, rest = units[ending], plain[: -len(ending) - 1]
            break
    for entry in vocabulary()["concept"]:
        if is_whole(rest, entry):
            return MeasureName(
                entry["label"], unit, entry.get("units", ()), entry.get("plausible", ())
            )
    return MeasureName(name, unit)


def value_meaning(value: str) -> bool | None:
    """Tell whether a value means yes or no; None where it means neither.

    >>> value_meaning("Ja"), value_meaning("N"), value_meaning("blue")
    (True, False, None)
    """
    known, plain = vocabulary()["values"], plain_text(value).strip()
    return True if plain in known["yes"] else False if plain in known["no"] else None


def is_dead_or_alive(value: str) -> bool:
    """Tell whether a value says that somebody died or lives.

    >>> is_dead_or_alive("Fallecido"), is_dead_or_alive("Lebend"), is_dead_or_alive("home")
    (True, True, False)
    """
    known = vocabulary()["values"]
    return plain_text(value).strip() in (*known["dead"], *known["alive"])


def is_event(value: str) -> bool:
    """Tell whether a value names an event, such as expired."""
    events = vocabulary()["values"]["event"]
    return plain_text(value).strip() in events or any(
        word in events and len(word) > 3 for word in words_of(value)
    )
