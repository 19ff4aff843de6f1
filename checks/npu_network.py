"""The network ports of the NPUs: up, addressed, healthy, and with one TLS switch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from npudoctor.facts.by_chip import PerPort
from npudoctor.facts.hccn.card_view import CardAddresses, CardLinks, CardNetHealth, NetworkPlan
from npudoctor.facts.hccn.conf import CONF_PATH
from npudoctor.facts.hccn.probes import NetworkDevices, PortSettings
from npudoctor.facts.hccn.tls import Tls
from npudoctor.facts.node.container import Container
from npudoctor.sdk import Because, Evidence, Finding, FixOffer, Message, Severity, Unavailable, check

from ._together import by_fault, by_setting, on
from ._unanswered import tell_unanswered
from .messages import npu_links as messages

BEHIND_THE_DRIVER = ("npu.present", "container.devices", "driver.installed")

_UNSET = ("Init",)
_NO_VERDICT = ("Detect ip set", "Unknown")
"""What a port says that has just been given a detect address, or that cannot tell."""
"""What net health says where no address to detect is set."""


def of_the_job(plan: NetworkPlan) -> tuple[Evidence, ...]:
    """Why several nodes are thought to be configured."""
    return (Evidence(source=plan.evidence[0], actual=plan.evidence[1]),) if plan.several and plan.evidence else ()


def _for_each(devices: Sequence[int], words: str, comment: str) -> str:
    """The command line that gives hccn_tool these words for each of the devices."""
    if len(devices) == 1:
        return f"hccn_tool -i {devices[0]} {words}  # {comment}"
    return f"for i in {' '.join(map(str, devices))}; do hccn_tool -i $i {words}; done  # {comment}"


def _recover(devices: Sequence[int]) -> str:
    return _for_each(devices, "-cfg recovery", "as root: apply /etc/hccn.conf again")


def _of_the_plan(words: str, names: str, devices: Sequence[int]) -> str:
    """The command line that sets what a network plan says of the first device, and which ones come after it."""
    others = f"; then -i {', '.join(map(str, devices[1:]))}" if devices[1:] else ""
    return f"hccn_tool -i {devices[0]} {words}  # as root; {names} of your network plan{others}"


def _name_devices(devices: Sequence[int], subjects: Mapping[int, str]) -> list[str]:
    names = [subjects[device] for device in devices]
    more = [messages.MORE.text(count=len(names) - 4)] if len(names) > 4 else []
    return [*names[:4], *more]


@check("npu.links", profile="standard", after=BEHIND_THE_DRIVER)
def network_ports_are_up(links: CardLinks, plan: NetworkPlan) -> Iterator[Finding]:
    """NPU network ports up.

    NPUs of several nodes communicate over these ports; one that is down stops the whole job while it connects. A single
    node does not need them.
    """
    down = {device: status for device, status in links.statuses.items() if status != "UP"}
    if down and len(down) == len(links.statuses):
        yield _down_finding(messages.ALL_PORTS_DOWN, list(down), links, plan, {})
    else:
        for group in by_fault(down.items(), len(links.statuses), lambda one: one[1]):
            devices = [device for device, _ in group]
            about = on([links.subjects[device] for device in devices])
            yield _down_finding(messages.PORT_DOWN, devices, links, plan, about, status=group[0][1])
    tell_unanswered(links.why)


def _of_port(message: Message, plan: NetworkPlan) -> str | None:
    """What to check: cables only where the port is one of Ethernet."""
    if not plan.is_roce and (plan.several or message is messages.PORT_DOWN):
        return messages.CHECK_FABRIC.text()
    return messages.CHECK_PORTS.text() if plan.several else None


def _down_finding(
    message: Message,
    down: Sequence[int],
    links: CardLinks,
    plan: NetworkPlan,
    about: Mapping[str, Any],
    **params: Any,
) -> Finding:
    first = down[0]
    return message.finding(
        **about,
        severity=Severity.ERROR if plan.several else None,
        detail=messages.JOB_NEEDS_PORTS.text() if plan.several else None,
        hint=_of_port(message, plan),
        commands=(
            links.command.format(first),
            *((f"hccn_tool -i {first} -optical -g", _recover(down)) if plan.is_roce else ()),
        ),
        evidence=(
            *(
                Evidence(source=links.command.format(device), expected="UP", actual=links.statuses[device])
                for device in down[:8]
            ),
            *of_the_job(plan),
        ),
        **params,
    )


@check("npu.network", profile="standard", after=BEHIND_THE_DRIVER)
def cards_have_addresses(
    found: CardAddresses,
    links: CardLinks,
    health: CardNetHealth | Unavailable,
    plan: NetworkPlan,
    conf: PortSettings | Unavailable,
    container: Container | None,
) -> Iterator[Finding]:
    """NPU network addresses set, unique and reachable.

    An NPU without an address, or with the address of another, cannot join a job over several nodes; one that does not
    reach its network fails such a job after minutes of waiting.
    """
    differing = _differences(found)
    without = [device for device, address in found.addresses.items() if not address and device not in differing]
    if without:
        yield _without_address(without, found, plan)
    yield from _not_in_force(differing, found, plan)
    if plan.is_roce and container is None and (unsaved := _not_on_disk(found, conf)):
        yield _not_saved(unsaved, found, plan, missing=isinstance(conf, Unavailable))
    shared = _shared_addresses(found)
    if shared:
        yield _same_address(shared, found, plan)
    known = {*without, *differing, *(device for devices in shared.values() for device in devices)}
    gateways = [device for device in _without_gateway(found) if device not in known]
    if gateways:
        yield _no_gateway(gateways, found, plan)
    if isinstance(health, CardNetHealth):
        needy = gateways if plan.several else []
        yield from _unhealthy_findings(health, links, plan, {*known, *needy})
    tell_unanswered(found.why)
    if found.gateway_unknown is not None:
        yield from _side_question("gateway", found.gateway_unknown)
    tell_unanswered(health if isinstance(health, Unavailable) else health.why)


def _side_question(question: str, why: Unavailable) -> Iterator[Finding]:
    if why.because is not Because.NOT_APPLICABLE:
        yield messages.NOT_COMPARED.finding(question=f"hccn_tool -{question} -g", reason=why.reason)


def _differences(found: CardAddresses) -> dict[int, dict[str, tuple[str, str | None]]]:
    """What each NPU has of a setting (the second), where /etc/hccn.conf wants another (the first)."""
    differing: dict[int, dict[str, tuple[str, str | None]]] = {}
    for device, answers in found.in_force.items():
        for name, wanted in found.on_disk.get(device, {}).items():
            if name in answers and not {"*", ";"} & set(f"{wanted}{answers[name]}") and wanted != answers[name]:
                if name == "netmask" and (not answers["address"] or answers[name] is None):
                    continue  # without an address there is no netmask either, and not every answer shows it
                differing.setdefault(device, {})[name] = (wanted, answers[name])
    return differing


def _not_in_force(
    differing: Mapping[int, Mapping[str, tuple[str, str | None]]], found: CardAddresses, plan: NetworkPlan
) -> Iterator[Finding]:
    """What the file wants and the NPUs do not have: it was changed later, or was never applied."""
    for group in by_setting(differing.items(), lambda one: tuple(sorted(one[1]))):
        devices = [device for device, _ in group]
        names = sorted(group[0][1])
        needed = plan.several and any(one["address"][1] is None for _, one in group if "address" in one)
        first = group[0][1]
        yield messages.NOT_IN_FORCE.finding(
            **on([found.subjects[device] for device in devices]),
            severity=Severity.ERROR if needed else None,
            settings=names,
            count=len(names),
            actual=", ".join(first[name][1] or messages.NONE.text() for name in names),
            wanted=", ".join(first[name][0] for name in names),
            example=messages.FOR_EXAMPLE.text() if len(group) > 1 else "",
            commands=(
                *(f"hccn_tool -i {devices[0]} -{_QUERIES[name]} -g" for name in names),
                _recover(devices),
            ),
            evidence=(
                *(
                    Evidence(
                        source=(found.gateway_source if name == "gateway" else found.source)[device],
                        expected=messages.OF_FILE.text(name=name, device=device, value=one[name][0]),
                        actual=one[name][1] or messages.NONE.text(),
                    )
                    for device, one in group[:8]
                    for name in names
                ),
                *of_the_job(plan),
            ),
        )


def _not_on_disk(found: CardAddresses, conf: PortSettings | Unavailable) -> list[int]:
    """The NPUs with an address that /etc/hccn.conf does not set; none where the file could not be read."""
    if isinstance(conf, Unavailable) and conf.because is not Because.ABSENT:
        return []
    return [
        device
        for device, answers in found.in_force.items()
        if answers.get("address") and "address" not in found.on_disk.get(device, {})
    ]


def _as_it_is(device: int, answers: Mapping[str, str | None]) -> str:
    """The command line that gives an NPU what it has, which hccn_tool then writes into the file; else one that asks."""
    address, netmask = answers["address"], answers.get("netmask")
    if not (address and netmask) or {"*", ";"} & set(address + netmask):
        return f"hccn_tool -i {device} -ip -g"
    gateway = answers.get("gateway") or ""
    routed = f" && hccn_tool -i {device} -gateway -s gateway {gateway}" if gateway and "*" not in gateway else ""
    setting = f"hccn_tool -i {device} -ip -s address {address} netmask {netmask}{routed}"
    return f"{setting}  # as root, while no job runs: sets what it has"


def _not_saved(devices: Sequence[int], found: CardAddresses, plan: NetworkPlan, *, missing: bool) -> Finding:
    return messages.NOT_SAVED.finding(
        **on(["host"] if len(devices) == len(found.addresses) else _subjects(devices, found)),
        severity=Severity.WARNING if plan.several else None,
        path=CONF_PATH,
        count=len(devices),
        missing=messages.FILE_MISSING.text() if missing else "",
        commands=tuple(_as_it_is(device, found.in_force[device]) for device in devices),
        evidence=(
            *(
                Evidence(
                    source=f"hccn_tool -i {device} -ip -g",
                    expected=messages.ALSO_IN_FILE.text(name="address", device=device, path=CONF_PATH),
                    actual=found.in_force[device]["address"],
                )
                for device in devices[:8]
            ),
            *of_the_job(plan),
        ),
    )


_QUERIES = {"address": "ip", "netmask": "ip", "gateway": "gateway"}


def _without_address(devices: Sequence[int], found: CardAddresses, plan: NetworkPlan) -> Finding:
    everywhere = len(devices) == len(found.addresses)
    message = messages.NO_ADDRESSES if everywhere else messages.NO_ADDRESS
    return message.finding(
        **on(["host"] if everywhere else [found.subjects[device] for device in devices]),
        severity=Severity.ERROR if plan.several else None,
        detail=messages.JOB_NEEDS_ADDRESSES.text() if plan.several else None,
        commands=(
            _of_the_plan("-ip -s address <address> netmask <netmask>", "address and netmask", devices),
            _of_the_plan("-gateway -s gateway <gateway>", "gateway", devices),
        ),
        evidence=(
            *(
                Evidence(source=found.source[d], expected=messages.AN_ADDRESS.text(), actual=messages.NONE.text())
                for d in devices[:8]
            ),
            *of_the_job(plan),
        ),
    )


def _shared_addresses(found: CardAddresses) -> dict[str, list[int]]:
    """The addresses that several NPUs have, with these."""
    holders: dict[str, list[int]] = {}
    for device, address in found.addresses.items():
        if address and "*" not in address:
            holders.setdefault(address, []).append(device)
    return {address: devices for address, devices in holders.items() if len(devices) > 1}


def _same_address(shared: Mapping[str, Sequence[int]], found: CardAddresses, plan: NetworkPlan) -> Finding:
    """Addresses that were set twice, by one mistake in one file."""
    devices = [device for several in shared.values() for device in several]
    rest: dict[str, Any] = {
        "severity": Severity.ERROR if plan.several else None,
        "address": ", ".join(shared),
        "commands": tuple(f"hccn_tool -i {device} -ip -g" for device in devices[:4]),
        "evidence": (
            *(
                Evidence(source=found.source[device], expected=messages.UNIQUE_ADDRESS.text(), actual=address)
                for address, several in shared.items()
                for device in several[:4]
            ),
            *of_the_job(plan),
        ),
    }
    if len(shared) > 1:
        return messages.SAME_ADDRESSES.finding(**on(_subjects(devices, found)), **rest)
    *others, last = devices
    return messages.SAME_ADDRESS.finding(
        **on([found.subjects[last]]), npus=_name_devices(others, found.subjects), **rest
    )


def _subjects(devices: Sequence[int], found: CardAddresses) -> list[str]:
    return [found.subjects[device] for device in devices]


def _without_gateway(found: CardAddresses) -> list[int]:
    """A flat network needs no gateway; where most NPUs have one, the others lack theirs."""
    addressed = [device for device, address in found.addresses.items() if address]
    without = [device for device in addressed if not found.gateways.get(device)]
    return without if 2 * len(without) < len(addressed) else []


def _no_gateway(devices: Sequence[int], found: CardAddresses, plan: NetworkPlan) -> Finding:
    usual = Counter(filter(None, found.gateways.values())).most_common(1)[0][0]
    return messages.NO_GATEWAY.finding(
        **on(_subjects(devices, found)),
        severity=Severity.WARNING if plan.several else None,
        commands=(_of_the_plan("-gateway -s gateway <gateway>", "gateway", devices),),
        evidence=tuple(
            Evidence(
                source=found.gateway_source[device],
                expected=messages.A_GATEWAY.text(usual=usual),
                actual=messages.NONE.text(),
            )
            for device in devices[:8]
        ),
    )


def _unhealthy_findings(
    health: CardNetHealth, links: CardLinks, plan: NetworkPlan, known: Collection[int]
) -> Iterator[Finding]:
    """Ports that do not reach their detect address, without those of `known`, whose settings explain it."""
    well = ("Success", *_NO_VERDICT)
    odd = {device: one for device, one in health.statuses.items() if one not in well and device not in known}
    everywhere = len(odd) == len(links.statuses) and len(set(odd.values())) == 1
    for group in by_setting(odd.items(), lambda one: one[1]):
        devices = [device for device, _ in group]
        first, status = group[0]
        unset = status in _UNSET
        needed = plan.several or not (everywhere or unset)
        about = on(["host"] if everywhere else [links.subjects[device] for device in devices])
        severity = Severity.WARNING if needed else Severity.INFO
        more: dict[str, Any] = {} if unset else {"status": status}
        if everywhere:
            message = messages.NO_DETECT_ADDRESSES if unset else messages.ALL_UNREACHABLE
        else:
            message = messages.NO_DETECT_ADDRESS if unset else messages.UNREACHABLE
        yield message.finding(
            **about,
            severity=severity,
            commands=(
                f"hccn_tool -i {first} -net_health -g",
                f"hccn_tool -i {first} -netdetect -g",
                f"hccn_tool -i {first} -gateway -g",
            ),
            evidence=(
                *(Evidence(source=health.source[d], expected="Success", actual=odd[d]) for d in devices[:8]),
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
            **on([devices.subjects[device] for device in odd] if clear else ["host"]),
            severity=Severity.ERROR if plan.several else None,
            npus=_name_devices(odd, devices.subjects),
            commands=(_for_each(odd, f"-tls -s enable {usual}", "as root"),),
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
    tell_unanswered(tls.why)
