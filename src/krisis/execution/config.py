"""`RunConfig`: every setting of `krisis run`, from a file, a manifest or options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from krisis.backends.elicitation import Asking, Elicitation
from krisis.backends.secrets import holds_secret, names_secret
from krisis.backends.template import PromptTemplate, read_template
from krisis.cost_file import costs_from, read_costs
from krisis.data.base import SuiteConfig
from krisis.data.instructions import Instructions
from krisis.data.perturbation import NONE, Perturbed
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.execution.stop_when import Question
from krisis.json_values import JsonObject, JsonValue
from krisis.runs.description import RunDescription

# Where a cluster is: processes to start here, or the scheduler of Dask.
_PLACE = re.compile(r"local:[1-9]\d{0,2}|(?:tcp|tls)://[^\s/@:]+:\d{1,5}|tcp://\[[\da-f:]+\]:\d+")


class RunConfig(BaseModel):
    """One run, as a user states it; a field that is null has its default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: str = Field(description="Suite to run, or its YAML file; see `krisis info`.")
    model: str = Field(description="Backend: a plain name such as guideline, or PROVIDER/MODEL.")
    task: str | None = Field(None, description="Task of the suite, such as detection.")
    features: str | None = Field(None, description="Findings to show: reduced or full.")
    seed: int | None = Field(None, ge=0, description="Seed of the suite.")
    n_synthetic: int | None = Field(None, ge=0, description="Number of synthetic patients.")
    test_size: float | None = Field(None, gt=0, lt=1, description="Share of a file held out.")
    data_path: str | None = Field(None, description="File or folder with real data.")
    sex: str | None = Field(None, description="Sex to assume where the data do not state it.")
    costs: JsonObject | None = Field(
        None, description="What answers and deferrals cost, a YAML file."
    )
    price: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Cost of one deferral relative to the costliest error (0.2 = a fifth).",
    )
    mode: str | None = Field(None, description="Mode of the suite, such as few_shot.")
    preset: str | None = Field(None, description="Preset of the suite, such as v0.1 of ckd.")
    suite_options: JsonObject = Field({}, description="Another option of the suite.")
    limit: int | None = Field(None, ge=1, description="Only the first N records.")
    temperature: float | None = Field(None, ge=0, description="Sampling temperature.")
    max_output_tokens: int | None = Field(None, ge=1, description="Cap on a reply's tokens.")
    base_url: str | None = Field(None, description="Base URL of the provider's API.")
    max_retries: int | None = Field(None, ge=0, description="Retries of one call.")
    model_options: JsonObject = Field({}, description="Another option of the backend.")
    prompt: PromptTemplate | None = Field(
        None, description="Prompt of your own, a text file; see --print-prompt."
    )
    elicit: str = Field(
        "answer",
        description="answer, rationale, p-true, top-k, top-k:N or two-step.",
    )
    instructions: str = Field(
        "price", description="What the prompt says about abstaining: price, bare or policy."
    )
    metrics: list[str] = Field([], description="Metric or bundle, by its key.")
    batch_size: int = Field(8, ge=1, description="Records that share one call.")
    max_concurrency: int = Field(1, ge=1, description="Maximum concurrent calls.")
    cluster: str | None = Field(
        None,
        description="Workers that make the calls: tcp://host:8786 (Dask), local:N processes "
        "or none.",
    )
    repeats: int = Field(1, ge=1, description="Times each record is asked.")
    perturb: str = Field(
        NONE,
        description="Ask every record in another form: feature-order, answer-order, unit, "
        "missing-word or paraphrase (default none).",
    )
    adaptive: bool = Field(True, description="Adapt to rate limits.")
    requests_per_minute: float | None = Field(None, gt=0, description="Maximum calls per minute.")
    tokens_per_minute: float | None = Field(None, gt=0, description="Maximum tokens per minute.")
    timeout_seconds: float = Field(300.0, gt=0, description="Timeout of one call.")
    max_cost: float | None = Field(None, gt=0, description="Spend at most this many dollars.")
    max_tokens: int | None = Field(None, gt=0, description="Use at most this many tokens.")
    max_failures: float | None = Field(
        None, ge=0, description="Stop beyond this number or share of failures."
    )
    stop_when: str | None = Field(None, description="Stop once it is known: 'accuracy >= 0.85'.")
    prices: str | None = Field(None, description="Price table (YAML).")
    batch: bool = Field(False, description="Ask by provider batches, at half the price.")
    batch_then_live: bool = Field(
        False, description="Ask anew in calls where a reply is malformed."
    )
    poll_seconds: float = Field(30.0, gt=0, description="First pause between two looks at batches.")
    cache: bool = Field(True, description="Reuse replies paid for before.")
    cache_path: str | None = Field(None, description="File of the reply cache.")
    baselines: bool = Field(True, description="Score the suite's baselines too.")
    out: str = Field("runs", description="Folder for the new run.")
    store_features: bool | None = Field(
        None,
        description="Keep features of patients; else only synthetic.",
    )
    display: Literal["auto", "rich", "plain", "none"] = Field(
        "auto", description="Progress: auto, rich, plain or none."
    )

    @field_validator("suite_options", "model_options")
    @classmethod
    def _no_secret(cls, options: JsonObject) -> JsonObject:
        for name in options:
            if names_secret(name):
                raise ValueError(
                    f"{name!r} looks like a secret, and a configuration is stored with the run; "
                    "set the provider's environment variable instead"
                )
        return options

    @field_validator("costs", mode="before")
    @classmethod
    def _are_read(cls, given: JsonValue) -> JsonValue:
        if isinstance(given, str | Path):
            return read_costs(given).to_json()
        return given if given is None else costs_from(given, "costs").to_json()

    @field_validator("prompt", mode="before")
    @classmethod
    def _is_read(cls, given: JsonValue) -> JsonValue:
        return read_template(given) if isinstance(given, str | Path) else given

    @field_validator("elicit")
    @classmethod
    def _is_a_way(cls, text: str) -> str:
        return str(Elicitation.parsed(text))

    @field_validator("instructions")
    @classmethod
    def _are_instructions(cls, text: str) -> str:
        return Instructions.parsed(text).value

    @property
    def asking(self) -> Asking:
        """Return how the model is asked."""
        return Asking(
            self.prompt,
            Elicitation.parsed(self.elicit),
            Instructions.parsed(self.instructions),
            Perturbed.parsed(self.perturb, SuiteConfig().seed if self.seed is None else self.seed),
        )

    @field_validator("cluster")
    @classmethod
    def _is_a_place(cls, text: str | None) -> str | None:
        return None if text in (None, "none") else checked_place(text)

    @field_validator("stop_when")
    @classmethod
    def _is_a_rule(cls, text: str | None) -> str | None:
        return None if text is None else Question.parsed(text).text

    @field_validator("batch_then_live")
    @classmethod
    def _only_with_batch(cls, wanted: bool, info: ValidationInfo) -> bool:
        if wanted and not info.data.get("batch"):
            raise ValueError("it says what follows a provider batch; give --batch as well")
        return wanted

    @field_validator("perturb")
    @classmethod
    def _is_a_perturbation(cls, name: str) -> str:
        Perturbed.parsed(name, 0)
        return name

    @field_validator("base_url")
    @classmethod
    def _no_login(cls, address: str | None) -> str | None:
        if address is not None and holds_secret(address):
            raise ValueError(
                "an address with a login or a key in it would be stored with the run; give the "
                "address alone and the key in the provider's environment variable"
            )
        return address


# What may differ when a run is resumed: nothing that can change an answer.
RESUMABLE = (
    "max_concurrency",
    "cluster",
    "adaptive",
    "requests_per_minute",
    "tokens_per_minute",
    "timeout_seconds",
    "max_retries",
    "max_cost",
    "max_tokens",
    "max_failures",
    "prices",
    "batch",
    "batch_then_live",
    "poll_seconds",
    "cache",
    "cache_path",
    "baselines",
    "display",
)


def checked_place(text: str) -> str:
    """Return where a cluster is, or say how that is written."""
    if not _PLACE.fullmatch(text):
        raise InvalidValue(
            f"a cluster is local:N, such as local:4 for 4 processes on this machine, or the "
            f"address of a Dask scheduler, such as tcp://host:8786, not {text!r}"
        )
    return text


def checked_config(content: JsonObject, place: str) -> RunConfig:
    """Return the configuration, or one sentence about the first thing that is wrong with it."""
    for name in content:
        if name not in RunConfig.model_fields:
            unknown = UnknownName.among("option", str(name), RunConfig.model_fields)
            raise InvalidFile(f"{place}: {unknown}")
    try:
        return RunConfig.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise InvalidValue(f"{place}: {name} is missing; {_hint(name, content)}") from None
        message = first["msg"].removeprefix("Value error, ").replace("Input should", "it must")
        received = "" if first["type"] == "value_error" else f", received {first['input']!r}"
        raise InvalidValue(f"{place}: {name}: {message}{received}") from None


def _hint(name: str, given: JsonObject) -> str:
    """Return what to type where the suite or the model is missing."""
    if name == "suite":
        return "type for instance: krisis run ckd --model guideline (krisis info lists the suites)"
    suite = given.get("suite") or "SUITE"
    return f"type for instance: krisis run {suite} --model guideline, or --model openai/NAME"


def config_of_run(path: Path, described: RunDescription) -> JsonObject:
    """Return the configuration that makes a run again, or say how to go on where there is none."""
    if described.imported is not None:
        raise InvalidFile(
            f"{path} was imported from {', '.join(described.imported.files)}: krisis has no model "
            "to ask; go on in the program that made the file and import it again"
        )
    if described.is_reading:
        raise InvalidFile(f"{path} is read by a person; continue it with krisis read")
    if "suite" not in described.config:
        raise InvalidFile(
            f"{path} was made from Python objects; continue it from Python: Benchmark(suite, "
            f"backend, execution=Execution(recorder=Recorder.resume({str(path)!r}))).run()"
        )
    return dict(described.config)


def config_text(config: RunConfig) -> str:
    """Return a configuration as YAML, every option with its value."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def is_flag(name: str) -> bool:
    """Say whether an option is switched on and off."""
    annotation = RunConfig.model_fields[name].annotation
    return annotation is bool or bool in get_args(annotation)
