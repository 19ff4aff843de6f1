"""The network ports of the NPUs: up, addressed, healthy, and with one TLS switch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npudoctor.facts.by_chip import PerPort
from npudoctor.facts.hccn.card_view import CardAddresses, CardLinks, CardNetHealth, NetworkPlan
from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.hccn.tls import Tls
from npudoctor.sdk import Because, Evidence, Finding, FixOffer, Message, Severity, Unavailable, check

from .messages import npu_links as messages

BEHIND_THE_DRIVER = ("npu.present", "container.devices", "driver.installed")
RECOVER = "hccn_tool -i {} -cfg recovery  # as root: apply /etc/hccn.conf again"

_UNSET = ("Init",)
_NO_VERDICT = ("Detect ip set", "Unknown")
"""What a port says that has just been given a detect address, or that cannot tell."""
"""What net health says where no address to detect is set."""

OF_THE_PLAN = "  # as root; address, netmask and gateway: those of your network plan"


def of_the_job(plan: NetworkPlan) -> tuple[Evidence, ...]:
    """Why several nodes are thought to be configured."""
    return (Evidence(source=plan.evidence[0], actual=plan.evidence[1]),) if plan.evidence else ()


def _set_tls(devices: Sequence[int], value: int) -> str:
    """The command line that sets the switch of these devices."""
    if len(devices) == 1:
        return f"hccn_tool -i {devices[0]} -tls -s enable {value}  # as root"
    return f"for i in {' '.join(map(str, devices))}; do hccn_tool -i $i -tls -s enable {value}; done  # as root"


def _named(devices: Sequence[int], subjects: Mapping[int, str]) -> list[str]:
    names = [subjects[device] for device in devices]
    more = [messages.MORE.text(count=len(names) - 4)] if len(names) > 4 else []
    return [*names[:4], *more]


@check("npu.links", profile="standard", after=BEHIND_THE_DRIVER)
def network_ports_are_up(links: CardLinks, plan: NetworkPlan) -> Iterator[Finding]:
    """NPU network ports up.

    NPUs of several nodes communicate over these ports; one that is down stops the whole job while it connects. A single
    node does not need them.
    """
    down = [device for device, status in links.statuses.items() if status != "UP"]
    if down and len(down) == len(links.statuses):
        yield _down(messages.ALL_PORTS_DOWN, down, links, plan, "host")
    else:
        for device in down:
            subject, status = links.subjects[device], links.statuses[device]
            yield _down(messages.PORT_DOWN, [device], links, plan, subject, status=status)
    if links.failed:
        raise Unavailable(next(iter(links.failed.values())), because=Because.FAILED)


def _down(
    message: Message, down: Sequence[int], links: CardLinks, plan: NetworkPlan, subject: str, **params: Any
) -> Finding:
    first = down[0]
    return message.finding(
        subject=subject,
        severity=Severity.ERROR if plan.several else None,
        detail=messages.JOB_NEEDS_PORTS.text() if plan.several else None,
        hint=messages.CHECK_PORTS.text() if plan.several else None,
        commands=(
            links.command.format(first),
            *((f"hccn_tool -i {first} -optical -g", RECOVER.format(first)) if plan.is_roce else ()),
        ),
        evidence=(
            *(
                Evidence(source=links.command.format(device), expected="UP", actual=links.statuses[device])
                for device in down[:4]
            ),
            *of_the_job(plan),
        ),
        **params,
    )


@check("npu.network", profile="standard", after=BEHIND_THE_DRIVER)
def cards_have_addresses(
    found: CardAddresses, links: CardLinks, health: CardNetHealth | None, plan: NetworkPlan
) -> Iterator[Finding]:
    """NPU network addresses set, unique and reachable.

    An NPU without an address, or with the address of another, cannot join a job over several nodes; one that does not
    reach its network fails such a job after minutes of waiting.
    """
    yield from _without_address(found, plan)
    yield from _shared_addresses(found, plan)
    yield from _odd_gateways(found, plan)
    if health is not None:
        yield from _unhealthy(health, links, plan)
    failed = {**found.failed, **(health.failed if health is not None else {})}
    if failed:
        raise Unavailable(next(iter(failed.values())), because=Because.FAILED)


def _without_address(found: CardAddresses, plan: NetworkPlan) -> Iterator[Finding]:
    without = [device for device, address in found.addresses.items() if not address]
    if not without:
        return
    everywhere = len(without) == len(found.addresses)
    message = messages.NO_ADDRESSES if everywhere else messages.NO_ADDRESS
    groups = [without] if everywhere else [[device] for device in without]
    for devices in groups:
        first = devices[0]
        yield message.finding(
            subject="host" if everywhere else found.subjects[first],
            severity=Severity.ERROR if plan.several else None,
            detail=messages.JOB_NEEDS_ADDRESSES.text() if plan.several else None,
            commands=(
                f"hccn_tool -i {first} -ip -s address <address> netmask <netmask>{OF_THE_PLAN}",
                f"hccn_tool -i {first} -gateway -s gateway <gateway>{OF_THE_PLAN}",
                RECOVER.format(first),
            ),
            evidence=(
                *(
                    Evidence(source=found.source[d], expected=messages.AN_ADDRESS.text(), actual=messages.NONE.text())
                    for d in devices[:4]
                ),
                *of_the_job(plan),
            ),
        )


def _shared_addresses(found: CardAddresses, plan: NetworkPlan) -> Iterator[Finding]:
    holders: dict[str, list[int]] = {}
    for device, address in found.addresses.items():
        if address and "*" not in address:
            holders.setdefault(address, []).append(device)
    for address, devices in holders.items():
        if len(devices) < 2:
            continue
        yield messages.SAME_ADDRESS.finding(
            subject=found.subjects[devices[-1]],
            severity=Severity.ERROR if plan.several else None,
            address=address,
            npus=_named(devices, found.subjects),
            commands=tuple(f"hccn_tool -i {device} -ip -g" for device in devices[:4]),
            evidence=(
                *(
                    Evidence(source=found.source[device], expected=messages.UNIQUE_ADDRESS.text(), actual=address)
                    for device in devices[:4]
                ),
                *of_the_job(plan),
            ),
        )


def _odd_gateways(found: CardAddresses, plan: NetworkPlan) -> Iterator[Finding]:
    """A flat network needs no gateway; where most NPUs have one, the others lack theirs."""
    addressed = [device for device, address in found.addresses.items() if address]
    without = [device for device in addressed if not found.gateways.get(device)]
    if not without or 2 * len(without) >= len(addressed):
        return
    usual = Counter(filter(None, found.gateways.values())).most_common(1)[0][0]
    for device in without:
        yield messages.NO_GATEWAY.finding(
            subject=found.subjects[device],
            severity=Severity.WARNING if plan.several else None,
            commands=(f"hccn_tool -i {device} -gateway -s gateway <gateway>{OF_THE_PLAN}",),
            evidence=(
                Evidence(
                    source="/etc/hccn.conf",
                    expected=messages.A_GATEWAY.text(usual=usual),
                    actual=messages.NONE.text(),
                ),
            ),
        )


def _unhealthy(health: CardNetHealth, links: CardLinks, plan: NetworkPlan) -> Iterator[Finding]:
    odd = {device: status for device, status in health.statuses.items() if status not in ("Success", *_NO_VERDICT)}
    everywhere = len(odd) == len(links.statuses) and len(set(odd.values())) == 1
    if not odd:
        return
    for devices in [list(odd)] if everywhere else [[device] for device in odd]:
        first = devices[0]
        status = odd[first]
        unset = status in _UNSET
        needed = plan.several or not (everywhere or unset)
        subject = "host" if everywhere else links.subjects[first]
        severity = Severity.WARNING if needed else Severity.INFO
        more: dict[str, Any] = {} if unset else {"status": status}
        if everywhere:
            message = messages.NO_DETECT_ADDRESSES if unset else messages.ALL_UNREACHABLE
        else:
            message = messages.NO_DETECT_ADDRESS if unset else messages.UNREACHABLE
        yield message.finding(
            subject=subject,
            severity=severity,
            commands=(
                f"hccn_tool -i {first} -net_health -g",
                f"hccn_tool -i {first} -netdetect -g",
                f"hccn_tool -i {first} -gateway -g",
            ),
            evidence=(
                *(
                    Evidence(source=f"hccn_tool -i {d} -net_health -g", expected="Success", actual=odd[d])
                    for d in devices[:4]
                ),
                *of_the_job(plan),
            ),
            **more,
        )


@check("npu.tls", profile="standard", after=BEHIND_THE_DRIVER, fix="npu.tls-off")
def tls_is_alike(tls: PerPort[Tls], devices: NetworkDevices, plan: NetworkPlan) -> Iterator[Finding]:
    """TLS switch equal on all NPUs.

    Two NPUs never connect if only one of them encrypts: the job waits and fails with EI0006, from HDK 25.2.0 on with
    EI0016.
    """
    switches = {device: next((card.switch for card in answer.cards), 0) for device, answer in tls.by_device.items()}
    counts = Counter(switches.values())
    if len(counts) > 1:
        (usual, most), *_ = counts.most_common(1)
        clear = most > len(switches) / 2
        odd = [device for device, switch in switches.items() if switch != usual]
        message = messages.TLS_OFF if usual else messages.TLS_ON
        yield message.finding(
            subject=devices.subjects[odd[0]] if clear and len(odd) == 1 else "host",
            severity=Severity.ERROR if plan.several else None,
            npus=_named(odd, devices.subjects),
            commands=(_set_tls(odd, usual),),
            evidence=(
                *(
                    Evidence(
                        source=f"hccn_tool -i {device} -tls -g",
                        expected=f"tls switch[{usual}]",
                        actual=f"tls switch[{switches[device]}]",
                    )
                    for device in odd[:4]
                ),
                *of_the_job(plan),
            ),
            fix=None if usual else FixOffer(id="npu.tls-off", params={"devices": odd}),
        )
    if tls.failed:
        raise Unavailable(next(iter(tls.failed.values())), because=Because.FAILED)
