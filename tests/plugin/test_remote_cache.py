"""Regions that one machine compiled are another's from torch's remote cache, a Redis server."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.pytest_process import Project

# What TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE=1 sets, which torch reads while it is imported.
CONFTEST = """\
    import torch._functorch.config

    torch._functorch.config.enable_remote_autograd_cache = True
    """
TEST = """\
    import json
    import os

    import torch
    from torch._dynamo.utils import counters

    def block(x):
        with torch.fx.traceback.annotate({"compile_with_inductor": 0}):
            return x.sin() * 2 + x.cos()

    def test_block(fxregion):
        before = dict(counters["aot_autograd"])
        run = fxregion(block, fxregion.randn(8, requires_grad=True))
        run.check_numerics()
        assert len(run.regions) == 2
        found = {key: value - before.get(key, 0) for key, value in counters["aot_autograd"].items()}
        with open(os.environ["COUNTED"], "w") as file:
            json.dump(found, file)
    """


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a Redis server that nobody else uses."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("needs a Redis server: no redis-server or valkey-server here")
    if importlib.util.find_spec("redis") is None:
        pytest.skip("needs the redis package, which torch's remote cache asks for")
    socket = tmp_path / "redis"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    with (tmp_path / "redis.log").open("w") as log:
        process = subprocess.Popen([program, *options], stdout=log, stderr=log)
    try:
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.1)
        yield f"unix://{socket}"
    finally:
        process.terminate()
        process.wait()


def test_a_second_machine_compiles_no_region_anew(server: str, tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write({"tests/conftest.py": CONFTEST, "tests/test_block.py": TEST})

    def counted(machine: str) -> dict[str, int]:
        """Run on a machine that has compiled nothing yet; return what its caches counted."""
        run = project.run(
            "--fxregion",
            "--fxregion-device=virtual",
            env={
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "TORCHINDUCTOR_REDIS_URL": server,
                "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / machine),
                "COUNTED": str(tmp_path / f"{machine}.json"),
            },
        )
        assert run.code == 0, run.text
        found = json.loads((tmp_path / f"{machine}.json").read_text())
        names = ("hit", "miss", "saved")
        return {name: n for name in names if (n := found.get(f"autograd_cache_{name}", 0))}

    assert counted("first") == {"miss": 2, "saved": 2}
    assert counted("second") == {"hit": 2}
