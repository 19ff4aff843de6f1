"""Whether a kernel module can be built for each installed kernel, and whether the kernel demands signed modules.

An empty module is really built, in a folder of its own with mode 0700 that is removed afterwards, by a user who owns
nothing else; by root only where that user cannot build it. It is not loaded: that would change the node.
"""

from __future__ import annotations

import contextlib
import posixpath
import re

from npudoctor.facts.node.container import Container
from npudoctor.facts.node.staged_packages import StagedPackages
from npudoctor.facts.system.platform import Platform
from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, Unavailable, probe, untrusted_writer

MODULES = "/lib/modules"
MOST_KERNELS = 8
BUILD_LIMIT_S = 120.0
SCRIPT = """
umask 077
PATH=/usr/sbin:/usr/bin:/sbin:/bin; LC_ALL=C; export PATH LC_ALL
unset MAKEFLAGS MFLAGS MAKEFILES CC CFLAGS KCFLAGS KBUILD_OUTPUT KBUILD_EXTMOD ARCH CROSS_COMPILE
dir=$(mktemp -d "/tmp/npudoctor-module.XXXXXXXXXX") || exit 97
trap 'rm -rf "$dir"' EXIT
trap 'exit 96' HUP INT TERM
chmod 0711 "$dir"
write() {
rm -rf "$dir/m"; mkdir "$dir/m" || exit 97
cat >"$dir/m/npudoctor_empty.c" <<'END'
#include <linux/init.h>
#include <linux/module.h>
static int __init npudoctor_init(void) { return 0; }
static void __exit npudoctor_exit(void) { }
module_init(npudoctor_init);
module_exit(npudoctor_exit);
MODULE_LICENSE("GPL");
END
echo 'obj-m := npudoctor_empty.o' >"$dir/m/Makefile"
}
write
drop='setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all'
if test "$(id -u)" = 0 && $drop true 2>"$dir/log" && chown -R 65534:65534 "$dir/m"; then
$drop make -C "$1" M="$dir/m" modules >"$dir/log" 2>&1 </dev/null && test -f "$dir/m/npudoctor_empty.ko" && exit 0
write
fi
make -C "$1" M="$dir/m" modules >"$dir/log" 2>&1 </dev/null && test -f "$dir/m/npudoctor_empty.ko" && exit 0
tail -n 12 "$dir/log"
exit 1
"""
"""What is run with the folder of a kernel's headers as its argument."""
_LEADS = (
    r"(?m)^(?:-?include|sinclude|export|[A-Za-z_]{1,40})[ \t:?=]{1,9}"
    r"(?:[A-Za-z_]{1,40}[ \t:?=]{1,9})?(/(?!dev/)[\w./+-]{1,400})"
)
MOST_PATHS = 64
_FOREIGN = (*("(", "!", "-uid", "0", "-o", "(", "-perm", "-0020", "!", "-gid", "0", ")", "-o", "-perm", "-0002", ")"),)
"""What of a tree somebody else than root can change, for find; links are followed, so that their mode is not met."""
SEARCH_LIMIT_S = 60.0
_EFI = "/sys/firmware/efi"
_SECURE_BOOT = f"{_EFI}/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@record(frozen=True, kw_only=True)
class ModuleBuild:
    """One installed kernel. `built` is None where nothing was tried; `reason` says why not, or the end of the log."""

    kernel: str
    headers: bool
    built: bool | None = None
    reason: str = ""


@record(frozen=True)
class ModuleBuilds:
    """Every installed kernel, the running one by its release."""

    builds: tuple[ModuleBuild, ...]
    running: str | None


@probe(of_the_moment=True)
def module_builds(
    host: Host, staged: StagedPackages, container: Container | None, platform: Platform | None
) -> ModuleBuilds:
    """From building an empty module with the headers of each kernel below /lib/modules."""
    _ = staged  # nothing is built unless the person named a folder of packages
    if container is not None:
        raise NotApplicable("kernel modules are built on the host, not in a container")
    kernels = [
        name
        for name in host.list_dir(MODULES)
        if any(_may_exist(host, f"{MODULES}/{name}/{mark}") for mark in ("modules.dep", "modules.builtin", "kernel"))
    ]
    if not kernels:
        raise Unavailable(f"no kernel is installed in {MODULES}")
    running = platform.kernel if platform else None
    kernels.sort(key=lambda name: name != running)
    return ModuleBuilds(tuple(_build(host, kernel) for kernel in kernels[:MOST_KERNELS]), running)


def _may_exist(host: Host, path: str) -> bool:
    """Whether a path is there; one that may not be asked for may be."""
    try:
        return host.exists(path)
    except Unavailable:
        return True


def _build(host: Host, kernel: str) -> ModuleBuild:
    try:
        return _try_build(host, kernel)
    except Unavailable as why:
        return ModuleBuild(kernel=kernel, headers=True, reason=why.reason)


def _try_build(host: Host, kernel: str) -> ModuleBuild:
    folder = f"{MODULES}/{kernel}/build"
    if not host.exists(f"{folder}/Makefile"):
        return ModuleBuild(kernel=kernel, headers=False)
    lacking = [tool for tool in ("make", "gcc") if host.which(tool) is None]
    if lacking:
        return ModuleBuild(kernel=kernel, headers=True, reason=f"{' and '.join(lacking)} not installed")
    if host.about.source == "live" and host.rooted:
        return ModuleBuild(kernel=kernel, headers=True, reason="this system is not the running one")
    if host.about.source == "live" and (writer := _changed_by(host, _makefile_sources(host, folder))):
        return ModuleBuild(kernel=kernel, headers=True, reason=writer)
    done = host.run(["sh", "-c", SCRIPT, "npudoctor", folder], timeout=BUILD_LIMIT_S)
    if done.returncode is None or done.returncode in (96, 97):
        return ModuleBuild(kernel=kernel, headers=True, reason="the build did not end, or no folder could be made")
    if done.returncode == 0 and (other := _release(host, folder)) not in (None, kernel):
        reason = f"{folder} has the headers of kernel {other}"
        return ModuleBuild(kernel=kernel, headers=True, built=False, reason=reason)
    return ModuleBuild(kernel=kernel, headers=True, built=done.returncode == 0, reason=_error(done.stdout))


def _release(host: Host, folder: str) -> str | None:
    """The kernel that modules built with these headers are for, and no other loads; None where they do not say it."""
    with contextlib.suppress(Unavailable):
        found = re.search(r'UTS_RELEASE "([^"]+)"', host.read(f"{folder}/include/generated/utsrelease.h"))
        return found[1] if found else None
    return None


def _makefile_sources(host: Host, folder: str) -> list[str]:
    """What make would obey: the headers, and where their Makefile leads, such as the sources of a kernel built here."""
    makefile = f"{folder}/Makefile"
    text = ""
    with contextlib.suppress(Unavailable):  # then make cannot read it either
        text = host.read_part(makefile, 0, 1 << 17).decode("utf-8", "replace")
    return [folder, makefile, f"{posixpath.dirname(folder)}/source", *re.findall(_LEADS, text)[:MOST_PATHS]]


def _changed_by(host: Host, paths: list[str]) -> str | None:
    """Why make is not to obey these paths, and everything below the trees among them; None where only root can."""
    for path in paths:
        if writer := untrusted_writer(host, path):
            return writer
    if host.user.uid != 0:
        return None  # nothing runs as root
    trees = {
        path if host.stat(path).kind == "dir" else posixpath.dirname(path) for path in paths if _is_tree(host, path)
    }
    found = host.run(["find", "-L", *sorted(trees), *_FOREIGN, "-print", "-quit"], timeout=SEARCH_LIMIT_S)
    if found.returncode is None:
        return f"{paths[0]} could not be searched for files that another user can change"
    first = found.stdout.splitlines()[:1]
    return f"{first[0]} can be changed by another user than root" if first else None


def _is_tree(host: Host, path: str) -> bool:
    return host.exists(path) and (host.stat(path).kind == "dir" or posixpath.basename(path) == "Makefile")


def _error(log: str) -> str:
    """The line of a build log that names the failure: the first error, else the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror\b|\*\*\*", line, re.I)), lines[-1] if lines else "")[
        :200
    ]


@record(frozen=True, kw_only=True)
class ModuleSigning:
    """What may refuse an unsigned module; None is not known. `lockdown` is the mode in force, `kysec` what Kylin's
    getstatus prints of it."""

    secure_boot: bool | None = None
    enforced: bool | None = None
    lockdown: str | None = None
    kysec: str | None = None


@probe
def module_signing(host: Host, staged: StagedPackages, container: Container | None) -> ModuleSigning:
    """From the firmware's variables, the kernel's parameters, and Kylin's own tool."""
    _ = staged
    if container is not None:
        raise NotApplicable("kernel modules are loaded on the host, not in a container")
    secure_boot = enforced = lockdown = kysec = None
    with contextlib.suppress(Unavailable):
        secure_boot = host.read_bytes(_SECURE_BOOT, limit=8)[4:5] == b"\x01" if host.exists(_EFI) else False
    with contextlib.suppress(Unavailable):
        enforced = host.read("/sys/module/module/parameters/sig_enforce").strip() == "Y"
    with contextlib.suppress(Unavailable):
        modes = re.search(r"\[(\w+)\]", host.read("/sys/kernel/security/lockdown"))
        lockdown = modes[1] if modes else None
    with contextlib.suppress(Unavailable):
        if host.which("getstatus") is not None:
            lines = host.run(["getstatus"]).stdout.splitlines()
            kysec = next((line.strip() for line in lines if "kysec status" in line.lower()), None)
    if secure_boot is None and enforced is None:
        raise Unavailable("neither Secure Boot nor module signing could be read", because=Because.ABSENT)
    return ModuleSigning(secure_boot=secure_boot, enforced=enforced, lockdown=lockdown, kysec=kysec)
