"""The suite's own settings: the plugin is tested through ``pytester``, as a user runs it."""

import os
from pathlib import Path

pytest_plugins = ["pytester"]

# pytester gives each test a home of its own; the virtual device is built once for all of them.
os.environ.setdefault("FXREGION_CACHE_DIR", str(Path.home() / ".cache" / "pytest-fxregion"))
