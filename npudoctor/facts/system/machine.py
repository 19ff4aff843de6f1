"""The server itself: its vendor, model, BIOS and BMC, as the firmware tells the kernel."""

from __future__ import annotations

from npudoctor.records import record
from npudoctor.sdk import Because, Host, Unavailable, probe

DMI = "/sys/class/dmi/id"
BMC = "/sys/class/ipmi/ipmi0/device/bmc/firmware_revision"
"""Written by the kernel's ipmi_si driver; absent where it is not loaded."""

_EMPTY = frozenset({"", "none", "n/a", "unknown", "not specified", "default string", "to be filled by o.e.m."})


@record(frozen=True, kw_only=True)
class Machine:
    """The server. `bios` is the version and date of its firmware, `bmc` the version of its management controller."""

    vendor: str | None = None
    product: str | None = None
    bios: str | None = None
    bmc: str | None = None


@probe
def machine(host: Host) -> Machine:
    """From /sys/class/dmi/id and the BMC's attributes."""
    vendor, product = _line(host, f"{DMI}/sys_vendor"), _line(host, f"{DMI}/product_name")
    version, date = _line(host, f"{DMI}/bios_version"), _line(host, f"{DMI}/bios_date")
    bios = f"{version} ({date})" if version and date else version
    found = Machine(vendor=vendor, product=product, bios=bios, bmc=_line(host, BMC))
    if found == Machine():
        raise Unavailable(f"{DMI} says nothing about this machine", because=Because.ABSENT)
    return found


def _line(host: Host, path: str) -> str | None:
    """The line of an attribute; None where it is missing or says nothing."""
    try:
        text = host.read(path).strip()
    except Unavailable:
        return None
    return None if text.lower() in _EMPTY else text
