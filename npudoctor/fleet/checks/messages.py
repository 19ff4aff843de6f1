"""What the checks across nodes say."""

from __future__ import annotations

from npudoctor.findings import Severity
from npudoctor.messages import Message, Sentence

W, INFO = Severity.WARNING, Severity.INFO

# fleet.answered

MISSING = Message(
    "fleet.answered/missing", summary="{count} {count:node|nodes} did not answer: {why}", hint="{next}", severity=W
)
OUT = Message(
    "fleet.answered/scheduler", summary="{count} {count:node|nodes} taken out by the scheduler: {why}", severity=INFO
)
TWICE = Message(
    "fleet.answered/same-host",
    summary="One host answered under {count} names: {who}",
    hint="Remove the duplicate from the list of nodes.",
)
CLONED = Message(
    "fleet.answered/machine-id",
    summary="{count} nodes have one machine id: {who}",
    detail="They were installed from one image; DHCP and journald may confuse them.",
    hint="On each of them: remove /etc/machine-id and run systemd-machine-id-setup.",
    severity=W,
)
HIDDEN = Message(
    "fleet.answered/hidden",
    summary="Only some NPUs visible on {count} {count:node|nodes}: {seen} of {all}",
    detail="The PCI bus has more: a cgroup or a partial allocation hides them. They are not lost.",
    severity=INFO,
)
ON_HOLD = Message(
    "fleet.answered/hold",
    summary="{count} {count:node|nodes} on hold: {why}",
    detail="They are checked; fixes and lists for schedulers leave them out.",
    severity=INFO,
)
HOLD_IGNORED = Message(
    "fleet.answered/hold-ignored",
    summary="{count} {count:node is|nodes are} not on hold: {why}",
    severity=W,
)
OTHER_USER = Message(
    "fleet.answered/other-user",
    summary="{count} {count:answer|answers} from files of another user: {owner}",
    detail="That user can write anything into them.",
    hint="Gather the answers in a folder that only you can change.",
    severity=W,
)
UNDETERMINED = Message(
    "fleet.answered/undetermined",
    summary="Could not determine {check} on {count} {count:node|nodes}: {why}",
    severity=W,
)
SKEW = Message(
    "fleet.answered/tool-version",
    summary="npudoctor {other} on {count} {count:node|nodes}, {usual} on the others",
    hint="Install one version of npudoctor everywhere.",
    severity=W,
)

# Values that differ: one message for each check that compares them

_DIFFERS = "{title}: {value}{newer} on {count} {count:node|nodes}, {norm} on {peers}"
_TIE = "{title}: no majority among {peers} nodes: {values}"
_TIE_HINT = "Decide which is right: --golden NODE names a correct node."

VERSION = Message(
    "fleet.versions/differs",
    summary=_DIFFERS,
    hint="Install one version on all nodes of a job.",
)
SAME_CANN = Sentence(
    "Install one version on all nodes of a job. HCCL refuses ranks with different CANN versions (EI0008)."
)
VERSION_TIE = Message("fleet.versions/tie", summary=_TIE, hint=_TIE_HINT)
UPGRADE = Message("fleet.versions/upgrade", summary="Upgrade of {group}: {done} of {all} nodes done", severity=INFO)
HALF = Message(
    "fleet.versions/half-upgraded",
    summary="Half upgraded on {count} {count:node|nodes}: {new} new, {old} old",
    hint="Finish the upgrade on {count:this node|these nodes}.",
)
NEITHER = Message(
    "fleet.versions/not-in-baseline",
    summary="{title} {value} on {count} {count:node|nodes} is neither {old} nor {new}",
    hint="Upgrade {count:it|them}, or correct the baseline.",
)
SYSTEM = Message("fleet.system/differs", summary=_DIFFERS, severity=W)
SYSTEM_TIE = Message("fleet.system/tie", summary=_TIE, hint=_TIE_HINT, severity=W)
PYTHON = Message(
    "fleet.python/differs", summary=_DIFFERS, hint="Use one environment, or one image, on all nodes.", severity=W
)
PYTHON_TIE = Message("fleet.python/tie", summary=_TIE, hint=_TIE_HINT, severity=W)
ENVIRONMENT = Message(
    "fleet.environment/differs",
    summary=_DIFFERS,
    hint="Export the same value on all nodes of a job.",
    severity=W,
)
ENVIRONMENT_TIE = Message("fleet.environment/tie", summary=_TIE, hint=_TIE_HINT, severity=W)
ADDRESS_NOT_OWN = Message(
    "fleet.environment/foreign-address",
    summary="HCCL_IF_IP={value} is not an address of {node}",
    hint="Set HCCL_IF_IP to the node's own address, or unset it and set HCCL_SOCKET_IFNAME.",
)
ADDRESS_SHARED = Message(
    "fleet.environment/shared-address",
    summary="HCCL_IF_IP={value} on {count} nodes",
    hint="Set HCCL_IF_IP to each node's own address, or unset it and set HCCL_SOCKET_IFNAME.",
)
OTHER = Message("fleet.other/differs", summary=_DIFFERS, severity=INFO)

# The network of the NPUs

TLS = Message(
    "fleet.tls/differs",
    summary="TLS switch of the NPUs: {value} ({count} {count:node|nodes}), {norm} ({peers})",
    detail="Links between them time out: HCCL needs the same switch at both ends (EI0016).",
    hint="Set one value on all nodes of a job together: hccn_tool -i N -tls -s enable 0",
)
TLS_TIE = Message("fleet.tls/tie", summary=_TIE, hint="Set one value on all nodes of a job together.")
CONFLICT = Message(
    "fleet.card-addresses/conflict",
    summary="NPU address {address} is used {count} times: {where}",
    hint="Give each NPU an address of its own: hccn_tool -i N -ip -s address A netmask M",
)
PREFIX = Message("fleet.card-addresses/netmask", summary=_DIFFERS, severity=W)
SEGMENT = Message(
    "fleet.card-addresses/segment",
    summary="NPU {device} is in network {value} on {count} {count:node|nodes}, in {norm} on {peers}",
    detail="NPUs of one index reach each other without a router only in one network.",
    hint="Correct the address, or check that the gateway routes between these networks.",
    severity=W,
)
RAIL = Message(
    "fleet.rails/other-switch",
    summary="NPU {device} of {node} is connected to {switch}, unlike the others ({usual})",
    hint="Check for a swapped cable.",
    severity=W,
)
PORT_TWICE = Message(
    "fleet.rails/port-used-twice",
    summary="Switch port {port} is the neighbour of {count} NPUs: {where}",
    hint="Check the LLDP data of the switch; one port has one cable.",
    severity=W,
)
LINK_SETTING = Message(
    "fleet.link-settings/differs",
    summary=_DIFFERS,
    hint="Both ends of a link need one value; set it on the whole group together.",
    severity=W,
)
LINK_SETTING_TIE = Message("fleet.link-settings/tie", summary=_TIE, severity=W)
LINKS_DOWN = Message(
    "fleet.link-settings/down",
    summary="{number} NPU {number:link|links} down on {count} {count:node|nodes}",
    hint="Check the switch or the cables that these NPUs share.",
)
SYSCTL = Message(
    "fleet.master-sysctls/low",
    summary="{name} is {value} on {count} {count:node|nodes}: {ranks} ranks need {needed}",
    detail="The master accepts a connection of every rank at once; a shorter queue drops some (HCCLpertest_16_0003).",
    hint="On the node that is MASTER_ADDR: sysctl -w {key}={needed}",
    severity=W,
)

# Jobs

TABLE_DIFFERS = Message(
    "fleet.rank-table/differs",
    summary="Rank table differs: {count} {count:node|nodes} unlike {peers}",
    hint="Copy one file to all nodes.",
)
TABLE_TIE = Message("fleet.rank-table/tie", summary=_TIE, hint="Copy one file to all nodes.")
TABLE_PROBLEM = Message(
    "fleet.rank-table/problem", summary="Rank table cannot be used: {problem}", hint="Write it anew."
)
TABLE_SERVER = Message(
    "fleet.rank-table/unknown-server",
    summary="Rank table names {count} {count:server|servers} that did not answer: {servers}",
    hint="Correct the table, or add the nodes to this run.",
)
TABLE_RANKS = Message(
    "fleet.rank-table/ranks",
    summary="Rank table: expected ranks 0-{last} once each, found {problem}",
    hint="Number the ranks from 0 without gaps.",
)
TABLE_ADDRESS = Message(
    "fleet.rank-table/address",
    summary="Rank table: device {device} of {node} has {stated}, the NPU has {actual}",
    hint="Write the table again with the addresses of the NPUs.",
)
SDID_TWICE = Message(
    "fleet.super-pod/sdid",
    summary="SDID {sdid} is used {count} times in super pod {pod}: {where}",
    detail="HCCL ends with EI0014.",
    hint="Contact the vendor: the super pod is numbered wrongly.",
)
SERVER_INDEX = Message(
    "fleet.super-pod/server-index",
    summary="Server index {index} is used by {count} nodes in super pod {pod}",
    hint="Contact the vendor: the super pod is numbered wrongly.",
)
SPANNING = Message(
    "fleet.super-pod/several",
    summary="Nodes of {count} super pods: {pods}",
    severity=INFO,
    detail="A job across super pods needs RoCE between them; a logical super pod must not span two.",
)

# Time and numbers

CLOCK_OFF = Message(
    "fleet.clocks/offset",
    summary="Clock of {count} {count:node|nodes} differs by {seconds} s or more",
    hint="Start chronyd or ntpd there; logs of different nodes cannot be ordered before.",
)
CLOCK_SPREAD = Message(
    "fleet.clocks/spread",
    summary="Clocks differ by at least {seconds} s between nodes",
    hint="Synchronise all nodes with one time server.",
    severity=W,
)
TIMEZONE = Message("fleet.clocks/timezone", summary=_DIFFERS, severity=W)
STEPPED = Message(
    "fleet.clocks/stepped",
    summary="Clock of {count} {count:node|nodes} was set while it was read",
    hint="Check the time service.",
    severity=W,
)
OUTLIER = Message(
    "fleet.outliers/value",
    summary="{measure} of {chip} is {value} {unit}, the median of {peers} nodes is {median} {unit}",
    hint="Check cooling and load of this NPU first; then exchange it with another.",
    severity=W,
)
TOGETHER = Message(
    "fleet.errors-together/same-error",
    summary="Same driver error on {count} nodes: {text}",
    hint="Check what these nodes share before each node: a switch, a rack, an image.",
    severity=W,
)
