"""The reporting sheet of a run, item by item of TRIPOD-LLM."""
