"""What hccn_tool prints, as facts: one name for its parsers, whichever module reads which answer."""

from typing import TYPE_CHECKING

from npudoctor.facts.faces import lazily

if TYPE_CHECKING:
    from npudoctor.facts.hccn.answers import (
        Address,
        Fec,
        Gateway,
        Link,
        NetDetect,
        NetHealth,
        Ping,
        Speed,
        Vnic,
        parse_fec,
        parse_gateway,
        parse_ip,
        parse_link,
        parse_net_health,
        parse_netdetect,
        parse_ping,
        parse_speed,
        parse_vnic,
    )
    from npudoctor.facts.hccn.conf import CONF_PATH, HccnConf, parse_conf
    from npudoctor.facts.hccn.counters import LinkStat, parse_hw_stats, parse_link_stat, parse_stat
    from npudoctor.facts.hccn.lines import HccnFailure, parse_failure
    from npudoctor.facts.hccn.port import (
        Lldp,
        Optical,
        PortStatus,
        Routes,
        parse_lldp,
        parse_optical,
        parse_route,
        parse_status,
    )
    from npudoctor.facts.hccn.tls import Certificate, Tls, TlsCard, parse_tls
else:
    __getattr__ = lazily(
        __name__,
        {
            "npudoctor.facts.hccn.answers": (
                "Address Fec Gateway Link NetDetect NetHealth Ping Speed Vnic parse_fec parse_gateway "
                "parse_ip parse_link parse_net_health parse_netdetect parse_ping parse_speed parse_vnic"
            ),
            "npudoctor.facts.hccn.conf": "CONF_PATH HccnConf parse_conf",
            "npudoctor.facts.hccn.counters": "LinkStat parse_hw_stats parse_link_stat parse_stat",
            "npudoctor.facts.hccn.lines": "HccnFailure parse_failure",
            "npudoctor.facts.hccn.port": (
                "Lldp Optical PortStatus Routes parse_lldp parse_optical parse_route parse_status"
            ),
            "npudoctor.facts.hccn.tls": "Certificate Tls TlsCard parse_tls",
        },
    )

__all__ = [
    "CONF_PATH",
    "Address",
    "Certificate",
    "Fec",
    "Gateway",
    "HccnConf",
    "HccnFailure",
    "Link",
    "LinkStat",
    "Lldp",
    "NetDetect",
    "NetHealth",
    "Optical",
    "Ping",
    "PortStatus",
    "Routes",
    "Speed",
    "Tls",
    "TlsCard",
    "Vnic",
    "parse_conf",
    "parse_failure",
    "parse_fec",
    "parse_gateway",
    "parse_hw_stats",
    "parse_ip",
    "parse_link",
    "parse_link_stat",
    "parse_lldp",
    "parse_net_health",
    "parse_netdetect",
    "parse_optical",
    "parse_ping",
    "parse_route",
    "parse_speed",
    "parse_stat",
    "parse_status",
    "parse_tls",
    "parse_vnic",
]
