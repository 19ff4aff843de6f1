"""The driver's library works below the restrictions of npudoctor's units: folders, logs, programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import npudoctor
from tests.plain_user import as_root

UNITS = Path(npudoctor.__file__).parent / "deploy" / "systemd"
DRIVER = "/usr/local/Ascend/driver"
LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
int dcmi_init(void)
{
    if (mkdir("/run/mcu_cfg_lock", 0700) != 0)
        return -8014;
    FILE *log = fopen("/var/log/nputools_LOG_INFO.log", "a");
    if (log == NULL)
        return -8014;
    fprintf(log, "init\\n");
    fclose(log);
    return system("test -d /run/mcu_cfg_lock && mount | grep -q .") == 0 ? 0 : -8005;
}
int dcmi_get_card_list(int *count, int *list, int room) { (void)room; *count = 1; list[0] = 3; return 0; }
int dcmi_get_device_num_in_card(int card, int *count) { (void)card; *count = 1; return 0; }
int dcmi_get_device_temperature(int card, int device, int *heat) { (void)card; (void)device; *heat = 40; return 0; }
"""
ASK = """
import sys
from npudoctor.host.live import library
library.CALL_S = library.INIT_S = 120.0
print(library.Library(sys.argv[1]).ask(sys.argv[2], pages=False, timeout=120.0).stdout)
"""
SCRIPT = """
set -e
mount --make-rprivate /
for folder in /run /var/log; do mount -t tmpfs tmpfs $folder; done
for folder in $READ_ONLY; do mount -o remount,bind,ro $folder; done
exec setpriv --bounding-set "$CAPABILITIES" --no-new-privs "$@"
"""


def _settings(unit: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (UNITS / unit).read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name] = f"{found.get(name, '')} {value}".strip()
    return found


def _asked(folder: Path, unit: str, writable: str) -> list[dict[str, object]]:
    place = folder / DRIVER.lstrip("/") / "lib64" / "driver"
    place.mkdir(parents=True)
    (folder / "x.c").write_text(LIBRARY, encoding="utf-8")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", str(folder / "x.c"), "-o", str(place / "libdcmi.so")], check=True, timeout=120
    )
    paths = {path.lstrip("-") for path in writable.split()}
    bounds = _settings(unit)["CapabilityBoundingSet"].lower().replace("cap_", "+").split()
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", SCRIPT, "sh", sys.executable, "-c", ASK, str(folder), DRIVER],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=240,
        env={
            **os.environ,
            "READ_ONLY": " ".join(one for one in ("/run", "/var/log") if one not in paths),
            "CAPABILITIES": ",".join(("-all", *bounds)),
        },
    )
    if re.search("unshare|mount|setpriv", done.stderr):
        pytest.skip(f"no mount namespace can be made here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line]


def _needs() -> None:
    missing = [tool for tool in ("gcc", "unshare", "setpriv", "mount") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"there is no {', '.join(missing)}")


@as_root
@pytest.mark.parametrize("unit", ["npudoctor.service", "npudoctor-setup.service"])
def test_what_the_library_writes_it_may_write(unit: str, open_folder: Path) -> None:
    _needs()
    rows = _asked(open_folder, unit, _settings(unit)["ReadWritePaths"])
    assert [row["rc"] for row in rows if row.get("tells") == "init"] == [0]
    assert [row["value"] for row in rows if row.get("tells") == "temperature"] == [40]


@as_root
def test_without_the_folders_it_says_that_it_cannot(open_folder: Path) -> None:
    _needs()
    rows = _asked(open_folder, "npudoctor.service", "")
    assert [row["rc"] for row in rows if row.get("tells") == "init"] == [-8014]
