"""The test build of a kernel module: root runs no Makefile that another user can write."""

import shutil
from pathlib import Path

import pytest

from npudoctor.facts.system import module_builds
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.masked import MaskedHost

pytestmark = pytest.mark.skipif(not (shutil.which("make") and shutil.which("gcc")), reason="make and gcc are required")


@pytest.mark.parametrize("way", ["include", "source", "makefile"])
def test_headers_that_lead_to_a_folder_of_others_are_not_built(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, others, proof = tmp_path / "9.9.9", tmp_path / "others", tmp_path / "proof"
    kernel.mkdir()
    others.mkdir()
    hostile = f"modules:\n\t@touch {proof} $(M)/npudoctor_empty.ko\n"
    (others / "Makefile").write_text(hostile, encoding="utf-8")
    others.chmod(0o777)
    (kernel / "build").mkdir()
    main = f"include {others}/Makefile\n" if way == "include" else hostile
    (kernel / "build" / "Makefile").write_text(main, encoding="utf-8")
    if way == "source":
        (kernel / "source").symlink_to(others)
    if way == "makefile":
        (kernel / "build" / "Makefile").chmod(0o666)
    monkeypatch.setattr(module_builds, "MODULES", str(tmp_path))
    host = LocalHost()
    try:
        found = module_builds._build(MaskedHost(host), "9.9.9")  # as a check asks
    finally:
        host.close()
    assert not proof.exists()
    assert found.built is None and "other users can write" in found.reason
