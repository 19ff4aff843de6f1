"""An archive of wheels for sites that have a Python of their own: installed with pip's --no-index."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.archive import pack, wheels

MINORS = (10, 11, 12, 13)

README = """npudoctor {version} and all that it requires, as wheels for Python 3.10 to 3.13 on Linux, {architecture}.

    python3 -m venv /opt/npudoctor
    /opt/npudoctor/bin/pip install --no-index --find-links wheels --require-hashes -r requirements.lock
    /opt/npudoctor/bin/pip install --no-index --find-links wheels --no-deps npudoctor

Run both in this folder. Nothing is downloaded.
"""


def build(python: Path, work: Path, own: Path, out: Path, *, version: str, architecture: str, epoch: int) -> Path:
    """Write the archive for one architecture; returns its path."""
    folder = work / architecture / "wheelhouse" / f"npudoctor-{version}-wheels-linux-{architecture}"
    shutil.rmtree(folder.parent, ignore_errors=True)
    (folder / "wheels").mkdir(parents=True)
    for minor in MINORS:
        for path in wheels.download(python, work, architecture, minor).glob("*.whl"):
            shutil.copy2(path, folder / "wheels" / path.name)
    shutil.copy2(own, folder / "wheels" / own.name)
    text = (wheels.ROOT / "requirements.lock").read_text(encoding="utf-8")
    (folder / "requirements.lock").write_text(wheels.without_build_tools(text), encoding="utf-8")
    (folder / "README").write_text(README.format(version=version, architecture=architecture), encoding="utf-8")
    shutil.copy2(wheels.ROOT / "LICENSE", folder / "LICENSE")
    path = out / f"{folder.name}.tar.gz"
    pack.write_tar(folder, path, epoch)
    return path
