"""The network ports of the cards: up, addressed, healthy, and with one TLS switch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from npudoctor.facts.by_chip import PerPort
from npudoctor.facts.hccn.card_view import CardAddresses, CardLinks, CardNetHealth, NetworkPlan
from npudoctor.facts.hccn.probes import NetworkDevices
from npudoctor.facts.hccn.tls import Tls
from npudoctor.sdk import Because, Evidence, Finding, FixOffer, Severity, Unavailable, check

BEHIND_THE_DRIVER = ("npu.present", "container.devices", "driver.installed")
RECOVER = "hccn_tool -i {} -cfg recovery  # as root: apply /etc/hccn.conf again"

_UNSET = ("Init",)
"""What net health says where no address to detect is set."""


def of_the_job(plan: NetworkPlan) -> tuple[Evidence, ...]:
    """Why several nodes are thought to be configured."""
    return (Evidence(source=plan.evidence[0], actual=plan.evidence[1]),) if plan.evidence else ()


def _named(devices: Sequence[int], subjects: Mapping[int, str]) -> str:
    names = [subjects[device] for device in devices]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


@check("npu.links", profile="standard", after=BEHIND_THE_DRIVER)
def network_ports_are_up(links: CardLinks, plan: NetworkPlan) -> Iterator[Finding]:
    """The network port of every card is up.

    Cards of several nodes talk over these ports; one that is down stops the whole job while it connects. One node
    alone does not need them.
    """
    down = [device for device, status in links.statuses.items() if status != "UP"]
    if down and len(down) == len(links.statuses):
        severity = Severity.ERROR if plan.several else Severity.INFO
        yield _down(down, links, plan, severity, "host", "no card's network port is up")
    else:
        severity = Severity.ERROR if plan.several else Severity.WARNING
        for device in down:
            summary = f"the card's network port is {links.statuses[device]}"
            yield _down([device], links, plan, severity, links.subjects[device], summary)
    if links.failed:
        raise Unavailable(next(iter(links.failed.values())), because=Because.FAILED)


def _down(
    down: Sequence[int], links: CardLinks, plan: NetworkPlan, severity: Severity, subject: str, summary: str
) -> Finding:
    first = down[0]
    several = "The job of this environment spans several nodes: it will wait for this port, and then fail."
    alone = "One node alone does not need it; a job over several nodes fails while it connects."
    unused = "One node alone does not need them: they are probably not cabled."
    return Finding(
        subject=subject,
        severity=severity,
        summary=summary,
        detail=several if plan.several else unused if severity is Severity.INFO else alone,
        hint="Nothing is to be done while jobs stay on this node."
        if severity is Severity.INFO
        else "Look at the cable, the optical module and the switch port; then apply the settings again.",
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
        pitfall="P026",
    )


@check("npu.network", profile="standard", after=BEHIND_THE_DRIVER)
def cards_have_addresses(
    found: CardAddresses, links: CardLinks, health: CardNetHealth | None, plan: NetworkPlan
) -> Iterator[Finding]:
    """Every card has an address of its own and reaches its network.

    A card without an address, or with that of another, takes part in no job over several nodes; one that does not
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
    severity = Severity.ERROR if plan.several else Severity.INFO if everywhere else Severity.WARNING
    groups = [without] if everywhere else [[device] for device in without]
    for devices in groups:
        first = devices[0]
        yield Finding(
            subject="host" if everywhere else found.subjects[first],
            severity=severity,
            summary="no card has an address on the cards' network" if everywhere else "the card has no network address",
            detail="One node alone does not need it."
            if not plan.several
            else "The job of this environment spans several nodes, whose cards find each other by these addresses.",
            hint="Set address, netmask, gateway and detect address; /etc/hccn.conf keeps them over a reboot.",
            commands=(
                f"hccn_tool -i {first} -ip -s address <address> netmask <netmask>  # as root",
                f"hccn_tool -i {first} -gateway -s gateway <gateway>  # as root",
                RECOVER.format(first),
            ),
            evidence=(
                *(Evidence(source=found.source[d], expected="an address", actual="none") for d in devices[:4]),
                *of_the_job(plan),
            ),
            pitfall="P027",
        )


def _shared_addresses(found: CardAddresses, plan: NetworkPlan) -> Iterator[Finding]:
    holders: dict[str, list[int]] = {}
    for device, address in found.addresses.items():
        if address and "*" not in address:
            holders.setdefault(address, []).append(device)
    for address, devices in holders.items():
        if len(devices) < 2:
            continue
        yield Finding(
            subject=found.subjects[devices[-1]],
            severity=Severity.ERROR if plan.several else Severity.WARNING,
            summary=f"{_named(devices, found.subjects)} have the same network address, {address}",
            detail="Packets for one card go to the other: links come up and break, or are never made.",
            hint="Give each card an address of its own, and correct /etc/hccn.conf.",
            commands=tuple(f"hccn_tool -i {device} -ip -g" for device in devices[:4]),
            evidence=(
                *(
                    Evidence(source=found.source[device], expected="an address of its own", actual=address)
                    for device in devices[:4]
                ),
                *of_the_job(plan),
            ),
            pitfall="P027",
        )


def _odd_gateways(found: CardAddresses, plan: NetworkPlan) -> Iterator[Finding]:
    """A flat network needs no gateway; where most cards have one, the others lack theirs."""
    addressed = [device for device, address in found.addresses.items() if address]
    without = [device for device in addressed if not found.gateways.get(device)]
    if not without or 2 * len(without) >= len(addressed):
        return
    usual = Counter(filter(None, found.gateways.values())).most_common(1)[0][0]
    for device in without:
        yield Finding(
            subject=found.subjects[device],
            severity=Severity.WARNING if plan.several else Severity.INFO,
            summary="the card has no gateway, the others have",
            detail="It reaches the cards of its own network only.",
            hint="Set the gateway that belongs to its network.",
            commands=(f"hccn_tool -i {device} -gateway -s gateway <gateway>  # as root",),
            evidence=(Evidence(source="/etc/hccn.conf", expected=f"a gateway, as {usual}", actual="none"),),
            pitfall="P027",
        )


def _unhealthy(health: CardNetHealth, links: CardLinks, plan: NetworkPlan) -> Iterator[Finding]:
    odd = {device: status for device, status in health.statuses.items() if status != "Success"}
    everywhere = len(odd) == len(links.statuses) and len(set(odd.values())) == 1
    if not odd:
        return
    for devices in [list(odd)] if everywhere else [[device] for device in odd]:
        first = devices[0]
        status = odd[first]
        unset = status in _UNSET
        needed = plan.several or not (everywhere or unset)
        yield Finding(
            subject="host" if everywhere else links.subjects[first],
            severity=Severity.WARNING if needed else Severity.INFO,
            summary=("every card" if everywhere else "the card")
            + (
                " has no address to detect its network by" if unset else f" reports the health of its network: {status}"
            ),
            detail="Without one the card cannot tell whether it reaches its network."
            if unset
            else "It does not reach the address that it detects its network by: a wrong address, gateway or VLAN.",
            hint="Set a detect address: the gateway, or another card's address."
            if unset
            else "Look at address, gateway and detect address of the card, then at the switch port and its VLAN.",
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
            pitfall="P028",
        )


@check("npu.tls", profile="standard", after=BEHIND_THE_DRIVER, fix="npu.tls-off")
def tls_is_alike(tls: PerPort[Tls], devices: NetworkDevices, plan: NetworkPlan) -> Iterator[Finding]:
    """The TLS switch is the same on all cards.

    Two cards of which one encrypts and the other does not never connect: the job waits and fails with EI0006, from
    HDK 25.2.0 on with EI0016.
    """
    switches = {device: next((card.switch for card in answer.cards), 0) for device, answer in tls.by_device.items()}
    counts = Counter(switches.values())
    if len(counts) > 1:
        (usual, most), *_ = counts.most_common(1)
        clear = most > len(switches) / 2
        odd = [device for device, switch in switches.items() if switch != usual]
        listed = _named(odd, devices.subjects)
        yield Finding(
            subject=devices.subjects[odd[0]] if clear and len(odd) == 1 else "host",
            severity=Severity.ERROR if plan.several else Severity.WARNING,
            summary=f"TLS is {_word(1 - usual)} on {listed} and {_word(usual)} on the other cards",
            detail="Cards with different switches do not connect with each other over their network ports.",
            hint="Set the same on all cards of all nodes: off, or on with certificates everywhere.",
            commands=(
                f"for i in {' '.join(map(str, odd))}; do hccn_tool -i $i -tls -s enable {usual}; done  # as root",
            ),
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
            pitfall="P025",
        )
    if tls.failed:
        raise Unavailable(next(iter(tls.failed.values())), because=Because.FAILED)


def _word(switch: int) -> str:
    return "on" if switch else "off"
