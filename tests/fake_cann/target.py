"""Environments with the real torch_npu for tests, and a node whose target Python is one of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npudoctor.host import Completed
from npudoctor.host.live.local import LocalHost
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sim import machine, scenario

TORCH = "2.13.0"
INSTALL_TIMEOUT_S = 420
COMPILER_PACKAGES = (
    *("attrs", "cffi", "cloudpickle", "cython", "decorator", "jinja2", "ml-dtypes", "pathlib2", "protobuf", "psutil"),
    *("requests", "scipy", "sympy", "tornado", "absl-py"),
)


class NotToBeHad(Exception):
    """The real packages cannot be installed here in a few minutes; the text says why."""


def install(folder: Path) -> Path:
    """A virtual environment with the CPU build of torch and the real torch_npu; its python. Raises NotToBeHad."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    report = folder / "report.json"
    wanted = (f"torch=={TORCH}", "numpy", "pyyaml")
    _pip(folder, "--dry-run", "--report", str(report), *wanted)
    names = [item["metadata"]["name"].lower() for item in json.loads(report.read_text(encoding="utf-8"))["install"]]
    if cuda := [name for name in names if name.startswith("nvidia-")]:
        raise NotToBeHad(f"the index here has torch only with {len(cuda)} packages of CUDA, which are gigabytes")
    _pip(folder, *wanted)
    _pip(folder, "--no-deps", f"torch_npu=={TORCH}")
    return folder / "bin/python"


def _pip(folder: Path, *words: str) -> None:
    argv = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *words]
    try:
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"installing it takes longer than {INSTALL_TIMEOUT_S} s here") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise NotToBeHad(f"the real torch_npu cannot be installed here: {last[:200]}")


def packages_of(python: Path) -> Path:
    """The folder of an environment's packages."""
    done = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return Path(done.stdout.strip())


def metadata(folder: Path, **versions: str) -> Path:
    """Write the metadata of packages that are not there; underscores in a name stand for hyphens."""
    for name, version in versions.items():
        place = folder / f"{name}-{version}.dist-info"
        place.mkdir(parents=True, exist_ok=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return folder


class NodeWithTarget:
    """A simulated node, in every answer but those of the target Python, which is a real interpreter here."""

    def __init__(self, said: Mapping[str, Any], python: Path, variables: Mapping[str, str]) -> None:
        self._node: SimulatedHost = machine.build(scenario.parse(dict(said), "test"), "test")
        usual = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        self._here = LocalHost(environ={**usual, **variables})
        self._python = str(python)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def run_in_target(
        self, name: str, python: str, *, timeout: float, environ: Mapping[str, str] | None = None
    ) -> Completed:
        """Run the script in the real interpreter."""
        return self._here.run_in_target(name, self._python, timeout=timeout, environ=environ)
