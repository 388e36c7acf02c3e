"""Stage 2: backends, which put records to a model."""

from krisis.lazy_names import lazily

_HOMES = {
    "Asking": "krisis.backends.elicitation",
    "BackendResponse": "krisis.backends.base",
    "BaseBackend": "krisis.backends.base",
    "Elicitation": "krisis.backends.elicitation",
    "Guideline": "krisis.backends.baselines.rules",
    "PromptTemplate": "krisis.backends.template",
    "RuleBackend": "krisis.backends.baselines.rules",
    "ScriptedBackend": "krisis.backends.scripted",
    "backend_from_name": "krisis.backends.catalogue",
    "build_prompt": "krisis.backends.prompt",
}
__all__ = [
    "Asking",
    "BackendResponse",
    "BaseBackend",
    "Elicitation",
    "Guideline",
    "PromptTemplate",
    "RuleBackend",
    "ScriptedBackend",
    "backend_from_name",
    "build_prompt",
]
__getattr__ = lazily(__name__, _HOMES)
