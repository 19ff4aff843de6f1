"""A .deb and an .rpm around an archive: files below /opt/npudoctor, a link in /usr/bin, the unit not enabled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

UNIT = "usr/lib/systemd/system/npudoctor.service"
SUMMARY = "finds out what is wrong with an Ascend NPU node, why, and what to fix first"
_DEB_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}

_AFTER_INSTALL = """if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    systemctl try-restart npudoctor.service || :
fi
"""
_BEFORE_REMOVE = """if [ -d /run/systemd/system ]; then
    systemctl disable --now npudoctor.service || :
else
    rm -f /etc/systemd/system/multi-user.target.wants/npudoctor.service
fi
"""
_AFTER_REMOVE = """if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
fi
"""

_CONTROL = """Package: npudoctor
Version: {version}
Architecture: {architecture}
Maintainer: npudoctor contributors <npudoctor@localhost>
Installed-Size: {kib}
Depends: libc6 (>= 2.17)
Section: admin
Priority: optional
Description: {summary}
 Checks the NPUs, the driver, CANN, the Python environment, HCCL's network and the
 system of one Huawei Ascend node. Brings its own Python; downloads nothing.
"""

_SPEC = """%global debug_package %{{nil}}
%global __os_install_post %{{nil}}
%global _build_id_links none
%global _binary_payload w6.xzdio
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global _buildhost localhost
Name: npudoctor
Version: {version}
Release: 1
Summary: {summary}
License: Apache-2.0
AutoReqProv: no
Requires: libc.so.6(GLIBC_2.17)(64bit)

%description
Checks the NPUs, the driver, CANN, the Python environment, HCCL's network and the
system of one Huawei Ascend node. Brings its own Python; downloads nothing.

%install
cp -a {tree}/. %{{buildroot}}/

%post
{after_install}
%preun
if [ "$1" = 0 ]; then
{before_remove}fi

%postun
{after_remove}
%files
%defattr(-,root,root,-)
/opt/npudoctor
/usr/bin/npudoctor
/{unit}
"""


def build(folder: Path, out: Path, *, version: str, architecture: str, epoch: int) -> list[Path]:
    """Write both packages of one finished folder; returns their paths."""
    place = folder.parent / "package"
    shutil.rmtree(place, ignore_errors=True)
    tree = place / "tree"
    (tree / "opt").mkdir(parents=True)
    shutil.copytree(folder, tree / "opt" / "npudoctor", symlinks=True)
    (tree / "usr" / "bin").mkdir(parents=True)
    (tree / "usr" / "bin" / "npudoctor").symlink_to("/opt/npudoctor/bin/npudoctor")
    unit = tree / UNIT
    unit.parent.mkdir(parents=True)
    shipped = next(folder.glob("lib/python3.*/site-packages/npudoctor/deploy/systemd/npudoctor.service"))
    text = shipped.read_text(encoding="utf-8").replace("/usr/local/bin/npudoctor", "/usr/bin/npudoctor")
    unit.write_text(
        re.sub(r"\A# .*\n", "# npudoctor's daemon: systemctl enable --now npudoctor.service\n", text), encoding="utf-8"
    )
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    return [
        _write_deb(tree, out, version=version, architecture=architecture, epoch=epoch),
        _write_rpm(tree, out, version=version, architecture=architecture, epoch=epoch),
    ]


def _write_deb(tree: Path, out: Path, *, version: str, architecture: str, epoch: int) -> Path:
    control = tree / "DEBIAN"
    control.mkdir()
    kib = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink()) >> 10
    name = _DEB_NAMES[architecture]
    (control / "control").write_text(
        _CONTROL.format(version=version, architecture=name, kib=kib, summary=SUMMARY), encoding="utf-8"
    )
    removal = f'if [ "$1" = remove ]; then\n{_BEFORE_REMOVE}fi\n'
    for script, text in (("postinst", _AFTER_INSTALL), ("prerm", removal), ("postrm", _AFTER_REMOVE)):
        (control / script).write_text(f"#!/bin/sh\nset -e\n{text}", encoding="utf-8")
        (control / script).chmod(0o755)
    path = out / f"npudoctor_{version}_{name}.deb"
    argv = ["dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--build", str(tree), str(path)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)})
    shutil.rmtree(control)
    return path


def _write_rpm(tree: Path, out: Path, *, version: str, architecture: str, epoch: int) -> Path:
    top = tree.parent / "rpm"
    top.mkdir()
    spec = top / "npudoctor.spec"
    spec.write_text(
        _SPEC.format(
            version=version, summary=SUMMARY, tree=tree, unit=UNIT, after_install=_AFTER_INSTALL,
            before_remove=_BEFORE_REMOVE, after_remove=_AFTER_REMOVE,
        ),
        encoding="utf-8",
    )  # fmt: skip
    argv = ["rpmbuild", "--quiet", "-bb", "--target", architecture, "--define", f"_topdir {top}", str(spec)]
    done = subprocess.run(
        argv, check=False, capture_output=True, encoding="utf-8", env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)}
    )
    if done.returncode:
        raise SystemExit(f"rpmbuild failed:\n{done.stderr[-3000:]}")
    built = next((top / "RPMS" / architecture).glob("*.rpm"))
    return Path(shutil.copy2(built, out / built.name))
