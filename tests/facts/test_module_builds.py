"""An empty module built with the headers of a real kernel, at a kernel release that the test injects.

Debian's linux-headers are enough: the kernel itself need be neither installed nor running.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.facts.system import module_builds as builds
from npudoctor.facts.system.module_builds import ModuleBuild, ModuleBuilds
from npudoctor.facts.system.platform import Platform
from npudoctor.host.live.local import LocalHost
from tests.plain_user import as_root

pytestmark = [pytest.mark.slow, as_root]


def headers() -> Path:
    """The headers of a kernel of this machine's architecture."""
    for path in sorted(glob.glob("/usr/src/linux-headers-*/include/generated/utsrelease.h")):
        if (Path(path).parents[2] / "Module.symvers").exists():
            return Path(path).parents[2]
    pytest.skip("no headers of a kernel are installed (on Debian linux-headers-amd64 or linux-headers-arm64)")


def release_of(source: Path) -> str:
    text = (source / "include/generated/utsrelease.h").read_text(encoding="utf-8")
    return text.split('"')[1]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if missing := [tool for tool in ("make", "gcc") if shutil.which(tool) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = tmp_path / "modules"
    monkeypatch.setattr(builds, "MODULES", str(folder))
    yield folder


def kernel(modules: Path, release: str, source: Path | None) -> None:
    (modules / release).mkdir(parents=True)
    (modules / release / "modules.dep").write_text("", encoding="utf-8")
    if source is not None:
        (modules / release / "build").symlink_to(source)


def found(running: str) -> dict[str, ModuleBuild]:
    host = LocalHost()
    try:
        made = builds.module_builds(host, StagedPackages(folders=("/r",)), None, _platform(running))
    finally:
        host.close()
    assert isinstance(made, ModuleBuilds)
    assert made.running == running
    return {one.kernel: one for one in made.builds}


def _platform(kernel: str) -> Platform:
    return Platform(machine=os.uname().machine, os="Debian", os_id="debian", os_version="12", kernel=kernel)


def test_the_kernel_of_the_headers_the_one_without_and_the_one_of_others(modules: Path) -> None:
    source = headers()
    release = release_of(source)
    kernel(modules, release, source)
    kernel(modules, "9.9.9-without", None)
    kernel(modules, "9.9.8-other", source)
    known = found("9.9.9-without")
    assert list(known) == ["9.9.9-without", *sorted({release, "9.9.8-other"})]
    assert (known[release].built, known[release].reason) == (True, "")
    assert (known["9.9.9-without"].headers, known["9.9.9-without"].built) == (False, None)
    other = known["9.9.8-other"]
    assert (other.built, other.reason) == (False, f"{modules}/9.9.8-other/build has the headers of kernel {release}")


def test_headers_whose_configuration_is_missing_fail_with_their_own_words(modules: Path, tmp_path: Path) -> None:
    source = headers()
    copy = tmp_path / "damaged"
    shutil.copytree(source, copy, symlinks=True)
    for link in (one for one in source.iterdir() if one.is_symlink()):
        (copy / link.name).unlink()
        (copy / link.name).symlink_to(link.resolve())
    release = release_of(source)
    shutil.rmtree(copy / "include" / "generated")
    kernel(modules, release, copy)
    built = found(release)[release]
    assert built.built is False
    assert "error" in built.reason.lower()
