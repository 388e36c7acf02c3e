"""Logs of Inspect (`inspect_ai`): `.eval`, a zip of JSON files, and `.json`."""

from __future__ import annotations

import json
import math
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from krisis.backends.scrubbing import without_values
from krisis.backends.signals import TokenLogprob, token_signals
from krisis.errors import BackendError, InvalidFile, MalformedReply, MissingExtra, UnknownName
from krisis.formats.base import (
    OF_LOGS,
    CannotTake,
    ConfidencePlace,
    ImportOptions,
    NotTaken,
    Reading,
    SourceRow,
    without_keys,
)
from krisis.formats.inspect_writer import inspect_log
from krisis.formats.tidy_table import TidyTable
from krisis.json_values import (
    NO_VALUES,
    JsonMapping,
    JsonObject,
    JsonValue,
    dumps,
    read_object,
    write_text,
)
from krisis.results.base import BenchmarkResult
from krisis.results.stops import Unfinished

_EXCEPTION = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Timeout|Cancelled))\(")
# Parts of the names of exceptions, and the failure class that krisis has for them.
_CLASSES = {
    "Cancelled": "cancelled",
    "Timeout": "timeout",
    "RateLimit": "rate_limit",
    "Authentication": "auth",
    "PermissionDenied": "auth",
    "BadRequest": "refused_request",
    "NotFound": "refused_request",
    "Unprocessable": "refused_request",
    "Connection": "unavailable",
    "InternalServer": "unavailable",
    "ServiceUnavailable": "unavailable",
    "LimitExceeded": "limit",
}
_RIGHT = ("C", 1, True)
_KNOWN_CLASSES = {kind.failure_class for kind in BackendError.__subclasses__()} | {
    *_CLASSES.values(),
    *(kind.failure_class for kind in MalformedReply.__subclasses__()),
}


class InspectLog:
    """Logs of Inspect, and the rows of a run as one."""

    options, suffix = OF_LOGS | {"scorer"}, ".inspect.json"
    has_dictionary = False  # its fields are Inspect's

    def read(self, path: Path, options: ImportOptions) -> Reading:
        """Read the samples of a log."""
        return _read(path, options)

    def write(self, _: TidyTable, result: BenchmarkResult, path: Path) -> str:
        """Write a log."""
        write_text(path, dumps(inspect_log(result)) + "\n", overwrite=True)
        return ""


def _read(path: Path, options: ImportOptions) -> Reading:
    """Read a log of Inspect; what may be stored of it is decided here."""
    header, samples = header_and_samples(path)
    spec = header.get("eval")
    if not isinstance(spec, dict) or not isinstance(spec.get("model"), str):
        raise InvalidFile(f"{path} is not a log of Inspect (it has no eval.model); check --as")
    found = list(samples)
    if not found:
        raise InvalidFile(
            f"{path} holds no samples; run Inspect with its samples logged (log_samples)"
        )
    scorer, key = _scorer(found, options, path)
    reader = _SampleReader(spec["model"], scorer, key, ConfidencePlace(options.confidence), options)
    order = {str(name): i for i, name in enumerate(_list(_of(spec, "dataset"), "sample_ids"))}
    found.sort(key=lambda sample: order.get(str(sample.get("id")), len(order)))
    n_expected = _n_expected(spec, found)
    return Reading(
        [reader.asking(sample) for sample in found],
        reader.taken_for(),
        spec["model"],
        str(spec.get("task") or "task"),
        str(_of(spec, "dataset").get("name") or "inspect"),
        _notes(header, spec),
        n_expected,
        _stop(header, len(found), n_expected),
    )


def _n_expected(spec: JsonMapping, found: Sequence[JsonMapping]) -> int:
    names, epochs = _list(_of(spec, "dataset"), "sample_ids"), _of(spec, "config").get("epochs")
    limited = _of(spec, "config").get("limit") or _of(spec, "config").get("sample_id")
    if limited or not isinstance(epochs, int):
        return len(found)
    return max(len(names) * epochs, len(found))


def _stop(header: JsonMapping, n_found: int, n_expected: int) -> Unfinished | None:
    status = header.get("status")
    if status == "success" and n_found >= n_expected:
        return None
    return Unfinished(f"the log has {n_found} of {n_expected} samples and the status {status!r}")


def _notes(header: JsonMapping, spec: JsonMapping) -> list[str]:
    used = _of(_of(header, "stats"), "model_usage")
    others = [name for name in used if name != spec["model"]]
    notes = [f"tokens of other models are not counted: {', '.join(others)}"] if others else []
    if header.get("invalidated"):
        notes.append("the log is marked as invalidated")
    return notes


def _of(content: JsonMapping, key: str) -> JsonObject:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _list(content: JsonMapping, key: str) -> list[JsonValue]:
    value = content.get(key)
    return value if isinstance(value, list) else []


def _first_choice(sample: JsonMapping) -> JsonObject:
    """Return the first reply of the model, with its message, stop reason and log-probabilities."""
    first = [one for one in _list(_of(sample, "output"), "choices")[:1] if isinstance(one, dict)]
    return first[0] if first else {}


def _scorer(samples: Sequence[JsonMapping], options: ImportOptions, path: Path) -> tuple[str, str]:
    """Return the scorer, and the key of its value where it gives several."""
    scores = [_of(one, "scores") for one in samples]
    known = list(dict.fromkeys(name for one in scores for name in one))
    if options.scorer:
        if options.scorer in known:
            return options.scorer, ""
        name, _, key = options.scorer.rpartition(".")
        keys = list(dict.fromkeys(k for one in scores for k in _of(_of(one, name), "value")))
        if keys and key not in keys:
            raise UnknownName.among(f"value of the scorer {name!r} of {path.name}:", key, keys)
        if not keys:
            raise UnknownName.among(f"scorer of {path.name}:", options.scorer, known)
        return name, key
    if len(known) > 1:
        raise InvalidFile(
            f"{path} has several scorers ({', '.join(known)}); choose the one whose answers are "
            "taken with --scorer"
        )
    return (known[0] if known else ""), ""


@dataclass(frozen=True, slots=True)
class _SampleReader:
    """Reads samples of one log."""

    model: str
    scorer: str
    key: str
    confidence: ConfidencePlace
    options: ImportOptions

    def taken_for(self) -> dict[str, str]:
        """Say where each field is read."""
        options, places = self.options, {"patient": "patient", "should_defer": "deferral label"}
        return {
            "id": "sample id",
            "right answer": "sample target",
            "answer": f"answer and value {self.key}".rstrip()
            + f" of the scorer {self.scorer or '(none)'}",
            "abstained": "score N (no answer)"
            + "".join(f", answer {token!r}" for token in options.abstain_answer),
            "failed": "sample error, answer that the scorer could not find",
            "number of the asking": "epoch",
            **self.confidence.taken_for(),
            **{
                what: f"metadata {getattr(options, name)}"
                for name, what in places.items()
                if getattr(options, name)
            },
            **{f"group {key}": f"metadata {key}" for key in options.group},
            "tokens": f"usage of {self.model}",
        }

    def asking(self, sample: JsonMapping) -> SourceRow | NotTaken:
        """Return one sample of one epoch."""
        name, epoch = sample.get("id"), sample.get("epoch")
        place = f"sample {str(name)[:100]}, epoch {epoch}"
        try:
            if not isinstance(epoch, int) or not 1 <= epoch <= 100_000:
                raise CannotTake("its epoch is not a whole number from 1")
            output = _of(sample, "output")
            text = _completion(sample)
            asking = SourceRow(
                place=place,
                record_id=name,
                repeat=epoch - 1,
                choices=_choices(sample),
                truth=_target(sample, self.scorer),
                values=_of(sample, "metadata"),
                raw_response=text,
                tokens=self._tokens(sample),
                model=str(output.get("model") or "") if output.get("choices") else "",
                finish_reason=_finish_reason(sample),
                latency_seconds=_seconds(output.get("time"), sample.get("working_time")),
            )
            self._judge(asking, sample)
        except CannotTake as why:
            return NotTaken(place, str(name)[:100], str(why))
        return asking

    def _judge(self, asking: SourceRow, sample: JsonMapping) -> None:
        """Set what the scorer made of the reply, or why there is none."""
        if sample.get("error") is not None:
            asking.error, asking.failure_class = _failure(sample)
            return
        score = _of(sample, "scores").get(self.scorer)
        if self.key and isinstance(score, dict):
            score = score | {"value": _of(score, "value").get(self.key)}
        limit, is_silent = _of(sample, "limit"), _is_silent(sample)
        is_right = isinstance(score, dict) and score.get("value") in _RIGHT
        if not isinstance(score, dict) or (limit and is_silent and not is_right):
            if not limit:
                raise CannotTake(f"the scorer {self.scorer!r} has not scored it")
            asking.error = f"the {limit.get('type')} limit was reached"
            asking.failure_class = "limit"
            return
        asking.answer = score.get("answer")
        if asking.answer is None and is_silent:
            asking.answer = ""
        self._value(asking, score)
        asking.confidence = self.confidence.find(
            asking.raw_response, _of(sample, "metadata"), _of(sample, "scores")
        )
        asking.signals = _signals(sample, asking)

    def _value(self, asking: SourceRow, score: JsonMapping) -> None:
        value, reason = score.get("value"), score.get("reason")
        is_empty = not str(asking.answer or "").strip()
        if value in _RIGHT:
            asking.is_right = True
        elif value == "N":
            asking.abstained = not (reason == "no_response" and self.options.empty == "no_answer")
            asking.answer = asking.answer if asking.abstained else ""
        elif value in ("I", 0, False) and not isinstance(value, list | dict):
            asking.is_right = False
            if reason == "invalid_response_format" and is_empty and self.options.empty is None:
                asking.error = "the scorer found no answer in the reply"
                asking.failure_class = MalformedReply.failure_class
        elif isinstance(value, float) and math.isnan(value):  # how Inspect writes "not scored"
            raise CannotTake(f"it was not scored ({reason or 'no reason given'})")
        else:
            words = str(value)[:80]
            if isinstance(value, dict):
                words = f"several values ({', '.join(value)[:80]}), one of which is taken with "
                words += f"--scorer {self.scorer}.KEY"
            raise CannotTake(f"its score is neither right nor wrong: {words}")

    def _tokens(self, sample: JsonMapping) -> tuple[int | None, int | None, int | None]:
        usage = _of(sample, "model_usage")
        used = usage.get(self.model)
        if not isinstance(used, dict):
            used = _of(_of(sample, "output"), "usage")
        counts = [used.get(f"{name}_tokens") for name in ("input", "output", "total")]
        n_input, n_output, n_total = (
            n if isinstance(n, int) and not isinstance(n, bool) and n >= 0 else None for n in counts
        )
        return n_input, n_output, n_total


def _target(sample: JsonMapping, scorer: str) -> str:
    """Return the right answer: of a multiple choice its letters, else the first of the targets."""
    target = sample.get("target")
    targets = target if isinstance(target, list) else [target]
    if not targets or not all(isinstance(one, str) for one in targets):
        raise CannotTake("its target is not text")
    if "choice" not in scorer or not sample.get("choices"):
        return str(targets[0])
    tokens = " ".join(map(str, targets)).replace(",", " ").split()
    letters = {letter for token in tokens for letter in ([token] if token.isdigit() else token)}
    return ", ".join(sorted(letters))


def _choices(sample: JsonMapping) -> tuple[tuple[str, str], ...]:
    words = sample.get("choices")
    if not isinstance(words, list) or len(words) > 26:
        return ()
    return tuple((chr(ord("A") + i), str(word)) for i, word in enumerate(words))


def _completion(sample: JsonMapping) -> str:
    """Return the text of the reply, also where it is kept apart as an attachment."""
    output = _of(sample, "output")
    text = output.get("completion")
    if not isinstance(text, str):
        content = _of(_first_choice(sample), "message").get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        text = "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
    kept = _of(sample, "attachments").get(text.removeprefix("attachment://"))
    return kept if text.startswith("attachment://") and isinstance(kept, str) else text


def _is_silent(sample: JsonMapping) -> bool:
    """Say whether the model replied nothing: no text and no call of a tool."""
    message = _of(_first_choice(sample), "message")
    return not _completion(sample).strip() and not message.get("tool_calls")


def _finish_reason(sample: JsonMapping) -> str:
    limit = _of(sample, "limit").get("type")
    said = str(_first_choice(sample).get("stop_reason") or "")
    return f"limit: {limit}" if limit else said.removeprefix("unknown")


def _seconds(*found: JsonValue) -> float | None:
    numbers = (n for n in found if isinstance(n, int | float) and not isinstance(n, bool))
    return next((float(n) for n in numbers if 0 <= n < 1e9), None)


def _failure(sample: JsonMapping) -> tuple[str, str]:
    """Return the last exception behind an error, without words of the case, and its class."""
    error = sample["error"]
    message = str(error.get("message") if isinstance(error, dict) else error)
    message = message.replace("\\n", "\n")  # an error inside another is quoted as Python quotes
    stated, _, words = message.partition(": ")
    shown = json.dumps([sample.get("input"), sample.get("choices"), sample.get("messages")])
    case = SimpleNamespace(shown=shown, template="")
    if stated in _KNOWN_CLASSES:
        return without_keys(without_values(words, case)), stated
    found = list(_EXCEPTION.finditer(message))
    kind = found[-1][1] if found else ""
    failure_class = next((known for part, known in _CLASSES.items() if part in kind), "backend")
    words = message[found[-1].end() :].strip("'\"()\\ ") if found else message
    kept = without_values(words, case)
    return without_keys(f"{kind}: {kept}" if kind else kept), failure_class


def _signals(sample: JsonMapping, asking: SourceRow) -> JsonMapping:
    """Return the figures of the tokens that spell the answer, where they were logged."""
    answer, text = str(asking.answer or ""), asking.raw_response
    content = _of(_first_choice(sample), "logprobs").get("content")
    places = [match.span() for match in re.finditer(rf"\b{re.escape(answer)}\b", text)]
    if not answer or not places or not isinstance(content, list):
        return NO_VALUES
    try:
        tokens = [
            TokenLogprob(
                str(token["token"]),
                float(token["logprob"]),
                tuple((str(t["token"]), float(t["logprob"])) for t in token["top_logprobs"] or ()),
            )
            for token in content
        ]
    except (KeyError, TypeError, ValueError):
        return NO_VALUES
    return token_signals(text, tokens, places[-1]) or NO_VALUES


_LARGEST_MEMBER, _PORTION = 1 << 28, 1 << 25
_ZSTANDARD = 93
_LINE_END = bytes.fromhex("28b52ffd2001090000") + b"\n"  # a Zstandard frame that holds one


def header_and_samples(path: Path) -> tuple[JsonObject, Iterator[JsonObject]]:
    """Return what a log says of the whole evaluation, and its samples one by one."""
    if zipfile.is_zipfile(path):
        return _archive(path)
    if path.suffix == ".eval":
        raise InvalidFile(f"{path} is not a whole zip archive, as .eval is; copy the log again")
    content = read_object(path, lenient=True)
    samples = content.get("samples")
    listed = samples if isinstance(samples, list) else []
    return content, (one if isinstance(one, dict) else {} for one in listed)


def _archive(path: Path) -> tuple[JsonObject, Iterator[JsonObject]]:
    """Return the header of an `.eval` file and its samples; an unfinished one has no header."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = list(dict.fromkeys(archive.namelist()))
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidFile(f"{path} is damaged ({error}); copy the log again") from None
    first = next((n for n in ("header.json", "_journal/start.json") if n in names), None)
    if first is None:
        raise InvalidFile(f"{path} is a zip file, but not a log of Inspect; check --as")
    header = next(_members(path, [first]))
    samples = sorted(name for name in names if re.fullmatch(r"samples/.+\.json", name))
    return {"status": "started", **header}, _members(path, samples)


def _members(path: Path, names: Sequence[str]) -> Iterator[JsonObject]:
    """Read files of an archive, in portions that fit into memory."""
    with zipfile.ZipFile(path) as archive:
        portion: list[zipfile.ZipInfo] = []
        n_bytes = 0
        for name in names:
            entry = archive.getinfo(name)
            if entry.file_size > _LARGEST_MEMBER:
                size = _LARGEST_MEMBER >> 20
                raise InvalidFile(f"{path}: {name} has more than {size} MiB; leave out its events")
            if portion and n_bytes + entry.file_size > _PORTION:
                yield from _parsed(path, archive, portion)
                portion, n_bytes = [], 0
            portion.append(entry)
            n_bytes += entry.file_size
        yield from _parsed(path, archive, portion)


def _parsed(
    path: Path, archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo]
) -> Iterator[JsonObject]:
    packed = [one for one in entries if one.compress_type == _ZSTANDARD]
    unpacked = {} if hasattr(zipfile, "ZIP_ZSTANDARD") else _unpacked(path, packed)
    for entry in entries:
        place = f"{path}: {entry.filename}"
        try:
            data = unpacked.get(entry.filename) or archive.read(entry)
            content: JsonValue = json.loads(data)
        except NotImplementedError:
            raise InvalidFile(f"{place} is compressed in a way that cannot be read") from None
        except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, EOFError) as error:
            raise InvalidFile(f"{place} is damaged ({error}); copy the log again") from None
        except ValueError:
            raise InvalidFile(f"{place} is not complete JSON; copy the log again") from None
        if not isinstance(content, dict):
            raise InvalidFile(f"{place} is not a JSON object; is it a log of Inspect?")
        yield content


def _unpacked(path: Path, entries: Sequence[zipfile.ZipInfo]) -> dict[str, bytes]:
    """Unpack Zstandard, which `zipfile` knows from Python 3.14 on, with DuckDB's reader.

    The files are put behind each other with frames between them that hold a line end.
    """
    if not entries:
        return {}
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named(
            "tables", "reading a log that is compressed with Zstandard (before Python 3.14)"
        ) from None
    longest = max(one.file_size for one in entries) + 2
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as base:
        joined = Path(folder) / "members.zst"
        joined.write_bytes(_LINE_END.join(_packed(path, entries)))
        try:
            lines = base.execute(
                "select line from read_csv(?, "  # noqa: S608 - numbers of our own are put in
                "compression='zstd', header=false, auto_detect=false, "
                "delim='\x01', quote='', escape='', columns={'line': 'VARCHAR'}, parallel=false, "
                f"max_line_size={longest}, buffer_size={max(4 * longest, 1 << 20)})",
                [str(joined)],
            ).fetchall()
        except duckdb.Error:
            raise InvalidFile(f"{path} is damaged; copy the log again") from None
    data = "\n".join(line or "" for (line,) in lines).encode()
    found, start = {}, 0
    for entry in entries:
        part = data[start : start + entry.file_size]
        if zlib.crc32(part) != entry.CRC:
            raise InvalidFile(f"{path}: {entry.filename} is damaged; copy the log again")
        found[entry.filename] = part
        start += entry.file_size + 1
    return found


def _packed(path: Path, entries: Sequence[zipfile.ZipInfo]) -> Iterator[bytes]:
    with path.open("rb") as file:
        for entry in entries:
            file.seek(entry.header_offset + 26)  # the lengths of two fields before the content
            sizes = file.read(4)
            file.seek(sum(int.from_bytes(sizes[i : i + 2], "little") for i in (0, 2)), 1)
            yield file.read(entry.compress_size)
