"""Whether driver and firmware may be changed now: the node is out of service, and no process holds an NPU."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost

DEVICES = r"/dev/(v?davinci|devmm_svm|hisi_hdc)\w*( \(deleted\))?"
"""The device nodes of the driver, as a regular expression."""
_BUSY = ("ALLOC", "MIX", "COMP", "DRAINING", "REBOOT", "POWER")
"""States in which a drained node still has jobs, or is about to be rebooted or powered off by Slurm."""
_OF_MACHINES = ("qemu", "kvm", "vmware", "virtual", "openstack", "bochs", "xen", "amazon ec2", "huawei cloud")
MOST_SHOWN = 5


def out_of_service(host: ApartHost, *, unmanaged: bool) -> str:
    """Who says that no job is given to this node; raises Refused where it is in service, or where this is not known.

    `unmanaged` is the person's word that no scheduler manages it.
    """
    said = [one for one in (_of_slurm(host, unmanaged), _of_kubernetes(host)) if one is not None]
    if said:
        return ", ".join(said)
    names = host.process_names()
    for name, process in (("Slurm", "slurmd"), ("Kubernetes", "kubelet")):
        if process in names:
            raise Refused(
                f"{process} runs here and {name} does not say whether this node is out of service; ask where it does"
            )
    if not unmanaged:
        raise Refused(
            "neither Slurm nor Kubernetes answers for this node; if no scheduler manages it, add --unmanaged",
            instead="--unmanaged",
        )
    return "no scheduler manages this node, as the person says"


def _of_slurm(host: ApartHost, unmanaged: bool) -> str | None:
    if host.which("scontrol") is None:
        return None
    name = host.about.hostname.partition(".")[0]
    done = host.run(["scontrol", "show", "node", name])
    state = re.search(r"\bState=(\S+)", done.stdout)
    if done.returncode != 0 or state is None:
        if unmanaged or "not found" in done.stdout + done.stderr:  # where slurmd runs, the caller refuses
            return None
        raise Refused(f"scontrol does not say whether {name} is drained: {_first(done.stderr or done.stdout)}")
    if "DRAIN" not in state[1] or any(word in state[1] for word in _BUSY):
        raise Refused(
            f"Slurm has {name} in service ({state[1]}); drain it and wait for its jobs",
            instead=f"scontrol update NodeName={name} State=DRAIN Reason=driver",
        )
    if re.search(r"\bReason=npudoctor-health:", done.stdout):
        raise Refused(
            f"{name} is drained by the health check of npudoctor, which resumes it; drain it for this installation",
            instead=f"scontrol update NodeName={name} State=DRAIN Reason=driver",
        )
    return f"Slurm: {name} is {state[1]}"


def _of_kubernetes(host: ApartHost) -> str | None:
    if host.which("kubectl") is None:
        return None
    name = host.about.hostname.lower()
    wanted = "jsonpath={.metadata.name} {.spec.unschedulable}"
    done = host.run(["kubectl", "get", "node", name, "-o", wanted, "--request-timeout=10s"])
    if done.returncode != 0 or not done.stdout.startswith(name):
        return None  # a kubectl without a cluster; where kubelet runs, the caller refuses
    if done.stdout.split()[1:] != ["true"]:
        raise Refused(
            f"Kubernetes has {name} in service; cordon and drain it",
            instead=f"kubectl drain {name} --ignore-daemonsets",
        )
    return f"Kubernetes: {name} is cordoned"


def free(host: ApartHost) -> None:
    """Raise Refused where a process holds an NPU."""
    if found := host.holding(DEVICES):
        refuse_holders(found)


def refuse_holders(found: Sequence[str]) -> None:
    """Raise Refused with the processes that hold an NPU."""
    more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    raise Refused(f"NPUs are held by {', '.join(found[:MOST_SHOWN])}{more}; stop these by their owner first")


def must_be_physical(host: ApartHost) -> None:
    """Raise Refused in a virtual machine: firmware is flashed on the physical one only."""
    said = ""
    if host.which("systemd-detect-virt") is not None:
        said = host.run(["systemd-detect-virt", "--vm"]).stdout.strip().replace("none", "")
    for name in ("sys_vendor", "product_name"):
        with contextlib.suppress(Unavailable):
            text = host.read(f"/sys/class/dmi/id/{name}").strip()
            said = said or (text if any(word in text.lower() for word in _OF_MACHINES) else "")
    if said:
        raise Refused(f"this is a virtual machine ({said}): firmware is installed on the physical machine")


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no answer")[:160]
