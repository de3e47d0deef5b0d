"""Tests prove for themselves: no verdicts of earlier runs."""

from __future__ import annotations

import os

os.environ["TILECHECK_VERDICTS"] = "off"
