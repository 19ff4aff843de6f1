"""The public interface for plug-ins: decorators for checks, probes and fixes, and their types.

A check evaluates facts and yields findings; a probe obtains one fact from the node:

    @probe
    def memory(host: Host) -> Memory: ...

    @check("host.swap", tags=("host",))
    def swap(memory: Memory) -> Iterator[Finding]: ...

The types of the parameters are the required facts; `Memory | None` makes one optional, and `Memory | Unavailable` gives
the reason in place of one that is unknown, to be raised again with its kind. The first line of the docstring
is the title: a noun phrase of at most 60 characters that says what is checked. The rest says why it matters.
"""

from __future__ import annotations

from typing import Any

from npudoctor.findings import Because, Evidence, Finding, FixOffer, Severity
from npudoctor.host import (
    STANDARD_PLACES,
    Completed,
    FileStat,
    Host,
    MutableHost,
    NotApplicable,
    ParseError,
    Refused,
    Unavailable,
    User,
    ask_each,
    real_path,
    run_each,
)
from npudoctor.host.hands_off import Maintenance
from npudoctor.injection import Need
from npudoctor.messages import Message, Sentence
from npudoctor.sdk.checks import HEALTH, ON_REQUEST, PREFLIGHT, PROFILES, Check, Options, Threshold, check
from npudoctor.sdk.fixes import Effect, Fix, Parameters, Risk, fix
from npudoctor.sdk.probes import Probe, needs_of, probe, probe_on_cards
from npudoctor.steps import Note, Obstacle, Step, StepFailed
from npudoctor.steps.accounts import LocalGroup, LocalUser
from npudoctor.steps.card_addresses import CONF as HCCN_CONF
from npudoctor.steps.card_addresses import KEYS as HCCN_KEYS
from npudoctor.steps.card_addresses import CardAddresses
from npudoctor.steps.card_addresses import live as live_address
from npudoctor.steps.card_addresses import settings as card_settings
from npudoctor.steps.card_addresses import with_settings as with_card_settings
from npudoctor.steps.environments import MARKER as ENVIRONMENT_MARKER
from npudoctor.steps.environments import CreateEnvironment, mapping_process
from npudoctor.steps.files import (
    MakeFolder,
    RemoveFile,
    RemoveFolder,
    SetLink,
    WriteFile,
    text_of,
    untrusted_writer,
    writing,
)
from npudoctor.steps.installers import InstallPackage
from npudoctor.steps.os_packages import SystemPackages, installed_packages
from npudoctor.steps.packages import KeepPackages
from npudoctor.steps.signatures import verify as verified_signature
from npudoctor.steps.system import EndProcess, GroupMember, Remount, RemoveLogs, Run, SetSysctl
from npudoctor.steps.units import SystemdUnit

_RENAMED = {"others_hand": "untrusted_writer"}
"""Names of 0.1."""


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings

    warnings.warn(f"{name} is called {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]


__all__ = [
    "ENVIRONMENT_MARKER",
    "HCCN_CONF",
    "HCCN_KEYS",
    "HEALTH",
    "ON_REQUEST",
    "PREFLIGHT",
    "PROFILES",
    "STANDARD_PLACES",
    "Because",
    "CardAddresses",
    "Check",
    "Completed",
    "CreateEnvironment",
    "Effect",
    "EndProcess",
    "Evidence",
    "FileStat",
    "Finding",
    "Fix",
    "FixOffer",
    "GroupMember",
    "Host",
    "InstallPackage",
    "KeepPackages",
    "LocalGroup",
    "LocalUser",
    "Maintenance",
    "MakeFolder",
    "Message",
    "MutableHost",
    "Need",
    "NotApplicable",
    "Note",
    "Obstacle",
    "Options",
    "Parameters",
    "ParseError",
    "Probe",
    "Refused",
    "Remount",
    "RemoveFile",
    "RemoveFolder",
    "RemoveLogs",
    "Risk",
    "Run",
    "Sentence",
    "SetLink",
    "SetSysctl",
    "Severity",
    "Step",
    "StepFailed",
    "SystemPackages",
    "SystemdUnit",
    "Threshold",
    "Unavailable",
    "User",
    "WriteFile",
    "ask_each",
    "card_settings",
    "check",
    "fix",
    "installed_packages",
    "live_address",
    "mapping_process",
    "needs_of",
    "probe",
    "probe_on_cards",
    "real_path",
    "run_each",
    "text_of",
    "untrusted_writer",
    "verified_signature",
    "with_card_settings",
    "writing",
]
