#!/usr/bin/env python3
"""What the pre-commit hook runs, from pre-commit's clone of this repository, not installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_fxregion.review.integrity import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
