"""What the time service says of the clock."""

from __future__ import annotations

from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, ParseError, Unavailable, probe

COMMAND = ("timedatectl", "show")


@record(frozen=True, kw_only=True)
class TimeService:
    """The clock as systemd has it: `ntp` is whether a service is to keep it, `synchronized` whether one does."""

    timezone: str | None = None
    ntp: bool | None = None
    synchronized: bool | None = None


def parse(text: str) -> TimeService:
    """Read the output of `timedatectl show`."""
    said = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
    if not {"NTP", "NTPSynchronized", "Timezone"} & said.keys():
        raise ParseError("not the output of timedatectl show", line_number=1, line=text[:80])
    known = {"yes": True, "no": False}
    return TimeService(
        timezone=said.get("Timezone") or None,
        ntp=known.get(said.get("NTP", "")),
        synchronized=known.get(said.get("NTPSynchronized", "")),
    )


@probe
def time_service(host: Host) -> TimeService:
    """From `timedatectl show`; a container without systemd has no time service."""
    done = host.run(COMMAND)
    if done.timed_out:
        raise Unavailable(f"`timedatectl show` timed out after {done.seconds:.3g} s", because=Because.TIMED_OUT)
    said = next((line.strip()[:160] for line in done.stderr.splitlines() if line.strip()), "")
    if done.returncode and ("systemd" in said or "bus" in said):
        raise NotApplicable(f"no time service: {said}")
    if done.returncode:
        raise Unavailable(f"`timedatectl show` failed: {said or 'no output'}", because=Because.FAILED)
    return parse(done.stdout)
