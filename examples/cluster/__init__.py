"""A fleet of aclog nodes over a real cluster of three brokers: ``python -m examples.cluster``.

The brokers run from Kafka's jars, which `make setup` has fetched; the tests' own ``support`` starts them.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
