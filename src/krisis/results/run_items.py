"""Any run as items: a run file of another format, a krisis result or a krisis run directory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from krisis import registry
from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, read_object
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import RunItems, Source
from krisis.metrics.repeats import collapse_repeats
from krisis.metrics.table import Answers, Table
