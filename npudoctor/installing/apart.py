"""A process that runs an installer and outlives npudoctor: a transient unit, or a session of its own without systemd.

It writes its pid and start time before the installer begins, and its exit code afterwards, so that it is
known later whether it runs, and how it ended. Nothing in npudoctor ends it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost

SCRIPT = r"""
trap : HUP INT QUIT TERM
umask 022
folder=$1 hands_off=$2 package=$3 why=$4
shift 4
cd / || exit 98
start=$(sed 's/^.*) //' "/proc/$$/stat" | cut -d' ' -f20)
printf '%s %s\n' "$$" "$start" >"$folder/pid.part" && sync "$folder/pid.part" || exit 98
printf '   \n' >"$folder/code.part" && sync "$folder/code.part" || exit 98
mv "$folder/pid.part" "$folder/pid" || exit 98
code=97
set -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root LOGNAME=root \
SHELL=/bin/bash LC_ALL=C TMPDIR="$folder/tmp" bash "$package" "$@"
test -z "$why" || set -- systemd-inhibit --what=shutdown:sleep --mode=block --who=npudoctor --why="$why" \
sh -c '"$@"; exit $?' sh "$@"
test -e "$folder/given-up" || {
"$@" >>"$folder/log" 2>&1 </dev/null
code=$?
}
run=${folder%/*}
grep -qsF "(run ${run##*/})" "$hands_off" && rm -f "$hands_off"
printf '%3s\n' "$code" 1<>"$folder/code.part" && sync "$folder/code.part" && mv "$folder/code.part" "$folder/code"
exit "$code"
"""
"""What is run by sh with the folder of the step, the hands-off file, the package, why no shutdown may come (empty where
systemd does not run) and the installer's options. It is the main process of its unit and outlives SIGTERM: `systemctl
stop` and a shutdown, which stops every unit, wait for the installer. systemd-inhibit itself says 1 of a program that a
signal has ended, a shell says which signal. The exit code takes the place of blanks, which
needs no space on a disk that the installer has filled."""
TEMPORARY = "tmp"
NOT_BEGUN = 97
_PID = re.compile(r"(\d{1,10}) (\d{1,20})\n")
_CODE = re.compile(r" *(\d{1,3})\n")


def command(host: ApartHost, unit: str, folder: str, hands_off: str, package: str, options: Sequence[str]) -> list[str]:
    """The command that runs a package apart from npudoctor. systemd replaces `${…}` and `$$` in the words of a unit."""
    paths = [host.outside(path) for path in (folder, hands_off, package)]
    inner = ["/bin/sh", "-c", SCRIPT, "npudoctor-install", *paths]
    if not host.exists("/run/systemd/system") or host.rooted:
        return [*inner, "", *options]
    for tool in ("systemd-run", "systemd-inhibit"):
        if host.which(tool) is None:
            raise Refused(f"{tool} is not installed, and this node runs systemd: the step could end with this session")
    kept = ("TimeoutStartSec=infinity", "TimeoutStopSec=infinity", "SendSIGKILL=no", "KillMode=process")
    return [
        *(
            "systemd-run",
            "--quiet",
            f"--unit={unit}",
            "--description=npudoctor setup --packages",
            f"--setenv={variable(host, folder)}",
        ),
        *(f"--property={one}" for one in kept),
        *(word.replace("$", "$$") for word in (*inner, "NPU driver or firmware is being installed", *options)),
    ]


def variable(host: ApartHost, folder: str) -> str:
    """What every process of a step has in its environment."""
    return f"TMPDIR={host.outside(folder)}/{TEMPORARY}"


def running_pid(host: ApartHost, folder: str) -> int | None:
    """The process that runs the installer of a step, or the installer; None where both have ended."""
    if exit_code(host, folder) is not None:
        return None  # what the installer has started, such as the driver's services, may go on
    found = _PID.fullmatch(_text(host, f"{folder}/pid"))
    if found is not None and host.start_of(int(found[1])) == found[2]:
        return int(found[1])
    left = host.processes_with(variable(host, folder))  # before its pid is written, or without what started it
    return left[0] if left else None


def was_started(host: ApartHost, folder: str) -> bool:
    """Whether the process of a step has begun: only then its installer may have."""
    return host.exists(f"{folder}/pid")


def give_up(host: ApartHost, folder: str) -> None:
    """Make sure that a step which has not begun never does: its process looks for this file after it wrote its pid."""
    host.write_file(f"{folder}/given-up", b"", mode=0o600)


def gave_up(host: ApartHost, folder: str) -> bool:
    """Whether the process of a step has found that file, and ended without its installer."""
    return host.exists(f"{folder}/given-up") and exit_code(host, folder) == NOT_BEGUN


def exit_code(host: ApartHost, folder: str) -> int | None:
    """The exit code of the installer; None where it was not written: it runs, or was ended with its process."""
    found = _CODE.fullmatch(_text(host, f"{folder}/code"))
    return int(found[1]) if found else None


def log_of(host: ApartHost, folder: str) -> str:
    """What the installer has printed."""
    return _text(host, posixpath.join(folder, "log"))


def _text(host: ApartHost, path: str) -> str:
    try:
        return host.read_bytes(path, limit=8 << 20).decode("utf-8", "replace")
    except Unavailable:
        return ""
