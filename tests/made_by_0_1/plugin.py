"""A plug-in as docs/plugins.md of npudoctor 0.1 taught to write one."""

from collections.abc import Iterator
from dataclasses import dataclass

from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.sdk import Finding, Host, Options, Severity, Threshold, check, probe

OLD_DAYS = Threshold("site_old_days", 30, "d", "the site's rule")


@dataclass(frozen=True)
class Motd:
    text: str


@probe
def motd(host: Host) -> Motd:
    return Motd(host.read("/etc/motd").strip())


@check("site.motd", tags=("site",))
def message_of_the_day_is_set(motd: Motd) -> Iterator[Finding]:
    """The message of the day says who owns this node."""
    if "owner" not in motd.text:
        yield Finding(summary="nobody is named as the owner of this node", severity=Severity.WARNING)


@check("site.chips", yields_to=("npu.count",), thresholds=(OLD_DAYS,))
def all_chips_are_here(info: NpuSmiInfo, options: Options) -> Iterator[Finding]:
    """All chips of this site's nodes are here."""
    if len(info.npus) < 8:
        yield Finding(summary=f"{len(info.npus)} chips, limit {OLD_DAYS.of(options):g}", symptom=True)
