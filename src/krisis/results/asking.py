"""How a model was asked, kept with the run: by which prompt of the user's own, by which way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingFacts:
    """How a model was asked that was not asked in the usual way.

    ``prompt`` is the name of a prompt of the user's own, ``prompt_text`` all that its file holds.
    """

    elicit: str = "answer"
    prompt: str = ""
    prompt_sha256: str = ""
    prompt_text: str = ""
    instructions: str = "price"

    def __str__(self) -> str:
        named = f"prompt {self.prompt} (SHA-256 {self.prompt_sha256[:12]})" if self.prompt else ""
        way = f"confidence by --elicit {self.elicit}" if self.elicit != "answer" else ""
        said = f"{self.instructions} instructions" if self.instructions != "price" else ""
        return ", ".join(filter(None, (named, way, said)))
