"""Names of hosts, nodes and pods in a log, by the words beside them.

A name after `=`, `:` or a bracket of a known key, in a URL, or in a line that Slurm, Kubernetes, ssh, syslog or MPI
writes is taken as it is. After a plain word ("on host memory") it is taken unless it is a common word. Sites of the
public, whose links a report keeps, and files of source code ("socket.cpp:697") are no names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = r"(?P<name>[A-Za-z0-9][\w.-]{0,252})"
_NUMBERED = r"(?P<name>[A-Za-z][\w.-]{0,252}\d)"
_AHEAD = r"(?<![A-Za-z0-9])"
_ASSIGNED = r"['\"]?\s{0,8}[=:\[]\s{0,24}['\"\[(]{0,2}(?:[a-z0-9]{1,12}://)?"
_PORT_OR_NUMBER = r"(?=[A-Za-z0-9][\w.]{0,252}(?:-|:\d)|[A-Za-z][\w.-]{0,252}?\d)"
_KEY = (
    r"(?:master_?(?:addr|host|node|name)|rdzv[_-]endpoint|init_?method|host|[a-z]{1,12}[_-]host"
    r"|(?:[a-z]{1,12}[_-])?host(?:\(name\)|[_ -]?(?:name|id)(?:-override)?)|server[_-]?(?:id|host|name)"
    r"|(?:spec\.|slurmd?_|head_|k8s_)?node[ _-]?(?:name|list|addr)|slurm_(?:job_nodelist|submit_host)|pod[_-]?name)"
)
_WEAK_KEY = r"(?:address|addr|server|endpoint|peer|remote|coordinator|leader|target|nodes?|pod|hosts)"
_PORT = r"(?:102[4-9]|10[3-9]\d|1[1-9]\d\d|[2-9]\d{3}|[1-5]\d{4}|6[0-5]\d{3})"
_GONE = (
    r"(?:down|unreachable|unresponsive|offline|dead|lost|gone|drained|draining|evicted|rebooted|failed"
    r"|not ?(?:ready|responding|reachable)|did not (?:answer|respond))\b"
)
_COUNTRY = r"(?:com|org|edu|gov|de|fr|cn|uk|jp|kr|ru|eu|ch|nl|se|fi|es|pl|dk|cz|ca|au|br|sg|tw|hk)"
"""How the names of sites end; endings that are also words of programs (in, it, at, io, net) are left out."""
_SYSLOG = r"(?= [\w.()/-]{1,64}(?:\[\d{1,10}\])?:)"
_EXPRESSIONS = tuple(
    re.compile(expression, re.IGNORECASE | re.MULTILINE)
    for expression in (
        _AHEAD + _KEY + _ASSIGNED + _NAME,
        _AHEAD + _WEAK_KEY + _ASSIGNED + _PORT_OR_NUMBER + _NAME,
        r"--(?:master[_-]addr|rdzv[_-]endpoint|host(?:s|name)?|node(?:list|name)?|address|server)[ =]['\"]?" + _NAME,
        _AHEAD + r"[a-z][a-z0-9+]{1,11}://(?:[^\s/@]{1,64}@)?\[?" + _NAME,
        _AHEAD + r"(?:connect(?:ed|ion|ing)?|bind|listen(?:ing)?|reach|resolve|contact)"
        r" (?:(?:to|on|from|with|for|refused|the|host|hostname|node|server|address) ){0,4}[(\['\"]{0,2}"
        + _NAME
        + r"(?=[\])'\"]{0,2}(?::\d|,? port \d|, \d))",
        _AHEAD + r"(?:connect(?:ed|ion|ing)?|contact|reach)(?: to| with| from)? (?:['\"]" + _NAME + r"(?=['\"])"
        r"|(?P<plain>[A-Za-z0-9][\w.-]{0,252})(?=: | failed| timed out| refused))",
        r"(?<![\w./:-])(?P<name>(?-i:[a-z][a-z0-9.-]{1,252}))(?=:" + _PORT + r"(?![\w:.]))",
        r"(?<![\w./-])" + _NAME + r"(?= {1,8}(?:max_)?slots=\d)",
        _AHEAD + r"linux " + _NAME + r"(?= \d{1,2}\.\d)",
        _AHEAD + r"node=['\"]?(?P<name>[a-z][a-z0-9.-]{0,252})(?![\w/])",
        _AHEAD + r"(?:host|local|remote|server|node|pod|peer|master|src|dst)_?ip" + _ASSIGNED + _NAME,
        r"host key verification failed for " + _NAME,
        r"network addresses of \(" + _NAME + r"(?=, \d)",
        _AHEAD + r"(?:on|from|to|at|remote|of) (?:host|node|server|pod)s?(?: name)? [\['\"(]{0,2}" + _NAME,
        _AHEAD + r"(?:host ?name|nodes?|pods?|hosts?)[ /]['\"]?" + _NUMBERED,
        r"(?:no such host|unknown host|lookup|hostname) ['\"]?" + _NAME + r"(?= on | port |:|['\"]|$)",
        r"(?<![\w./-])" + _NAME + r"(?=: (?:Name or service not known|Temporary failure in name|No route to host))",
        r"getaddrinfo\w{0,8}[ (:]{1,3}['\"]?" + _NAME,
        r"Successfully assigned \S{1,253} to " + _NAME,
        r"(?:kubelet,|kubelet on|deleted from|evicted from|scheduled on|launching on|failure on|running on) " + _NAME,
        r"(?:srun|slurmstepd|slurmd|sbatch): (?:error|fatal|debug|launch): " + _NAME + r"(?=: )",
        r"(?<![\w./-])" + _NAME + r"(?=: tasks? \d)",
        r"(?:JOB|STEP) [\d.]{1,24} ON " + _NAME + " CANCELLED",
        r"\[" + _NAME + r"(?=:\d{2,8}\] (?:\*\*\*|Signal|\[ ?\d|mca|PMIX|ORTE|pml))",
        r"['\"]" + _NAME + r"(?=['\"]: ?\[\d)",
        _AHEAD + r"[a-z]{3} [ \d]\d \d\d:\d\d:\d\d " + _NAME + _SYSLOG,
        r"(?<!\d)\d{4}-\d\d-\d\dT\d\d:\d\d[\d:.,+-]{0,24}Z? " + _NAME + _SYSLOG,
        r"(?<![\w./-])" + _NAME + r"(?=: (?:srun|slurm\w{1,8}|sbatch|ssh|bash|sh|mpirun|orted|prted|torchrun): )",
        _AHEAD
        + r"(?:node|host|pod|server) ['\"]?"
        + _NAME
        + r"(?=['\"]? (?:is |was |went |became |has )?"
        + _GONE
        + ")",
        r"(?<![\w.-])(?P<name>(?:[a-z0-9-]{1,63}\.){2,6}" + _COUNTRY + r")(?![\w(-]|\.\w)",
        r"(?<![\w.-])(?P<name>(?:[a-z0-9-]{1,63}\.){1,5}(?:svc|internal|lan|intranet|corp|localdomain|cluster\.local))"
        r"(?![\w(-]|\.\w)",
    )
)
_SEVERAL = re.compile(
    r"(?<![\w-])(?:-H|--?hosts?) (?P<names>[A-Za-z0-9][\w.-]{0,252}(?::\d{1,4})?(?:,[\w.-]{1,252}(?::\d{1,4})?){0,99})"
    r"(?![\w:/,.-])"
)
"""What mpirun takes: node1:8,node2:8."""
_LIST = re.compile(r"(?:=|on |nodes |hosts )(?P<name>[A-Za-z][\w.-]{0,63})\[\d{1,6}(?:[,-]\d{1,6}){0,20}\]")
"""Slurm's form of several names: node[01-04,07]."""
_PADDED = re.compile(
    r"(?<![\w./-])(?P<name>[A-Za-z][\w.-]{0,63})\[(?=0\d|\d{1,6}[,-]0\d)\d{1,6}(?:[,-]\d{1,6}){0,20}\]"
    r"|\b(?:srun|sbatch|slurm\w{1,8}|scontrol|pdsh|clush)\b[^\n\[]{0,80}?[\s,](?P<of>[A-Za-z][\w.-]{0,63})\[\d{1,6}[,-]"
)
"""The same elsewhere: numbers with a leading zero are no indexes."""
_COPY = re.compile(r"\b(?:scp|rsync|sftp|sshfs|rclone|mount(?:\.nfs4?)?)\s[^\n]{1,300}")
_REMOTE = re.compile(r"(?<![\w./:@-])(?:[\w.-]{1,32}@)?(?P<name>[A-Za-z][A-Za-z0-9.-]{0,252}):(?!//|\d|\s|$)")
"""HOST:PATH, as these commands write it."""

_PUBLIC = frozenset(
    """aliyun apache debian docker example gitcode gitee github githubusercontent google hiascend huawei huaweicloud
    huggingface kubernetes mindspore modelscope nvidia openeuler pypi python pythonhosted pytorch ray readthedocs
    schedmd stackoverflow ubuntu vllm anaconda gnu kernel myhuaweicloud tsinghua ustc w3 wikipedia""".split()  # noqa: SIM905 - a list of words fills a page
)
_SECOND = frozenset({"com", "edu", "org", "ac", "net"})
_TOP = frozenset({"com", "org", "io", "cn", "co", "net", "ai"})
_ENDINGS = frozenset(
    """py pyc c cc cpp cxx h hpp cu go rs java sh so log txt out err json yml yaml toml""".split()  # noqa: SIM905
)
_COMMON = frozenset(
    """a agent all an and any are array as at auto backend be before but by can cannot cause class clear cluster code
    communicator context cpu data dead default device devices dict did does down driver env environment error fail
    failed false file float for from gpu group grpc had hang has have head host http https in info init int interface
    ip ipv4 ipv6 is it its job kernel launcher leader level library list local localhost loop lost machine main map
    master mem memory mode name names network no node none not notready npu null object of ok on one only option or
    order os other pid pinned pod port process program python rank ranks ray ready remote root run runtime self server
    service side slave socket ssh static status str string system tcp tensor test that the this thread time timeout to
    torch true tuple type unavailable unknown unreachable up user using utf8 value var version was which will with
    without worker workers yes
    batch broker bytes container count cost daemon database duration elapsed endpoint epoch errno global index
    iter iteration len length line loss ms num number offset owner peer release remaining result ret retcode sample
    samples scheduler seed seq size step steps store the token tokens total train unlimited us window world you
    address segment target uid gid affinity buffer check group health link manager memory""".split()  # noqa: SIM905 - a list of words fills a page
)
_NO_HOST = re.compile(
    r"(?i)v?\d[\d._-]{0,60}(?:rc\d{0,3}|post\d{0,3}|[a-z])?|ascend\d{0,4}[a-z0-9]{0,4}|0x[0-9a-f]{1,32}|[0-9a-f]{32,64}"
    r"|(?:rank|npu|chip|device|core|gpu|cpu|pid|tid|task|stage|die|eth|x|aarch)[_-]?\d{0,6}(?:_64)?"
)
"""Numbers and versions, and what the field numbers."""


def hosts(text: str) -> Iterator[str]:
    """The names that a log tells; some more than once."""
    for expression, within in (*((one, text) for one in (*_EXPRESSIONS, _LIST, _PADDED)), *_copies(text)):
        for found in expression.finditer(within):
            name = found[found.lastgroup or 0].rstrip("._-")
            if _is_host(name):
                yield name
    for found in _SEVERAL.finditer(text):
        for one in found["names"].split(","):
            if _is_host(name := one.partition(":")[0].rstrip("._-")):
                yield name


def _copies(text: str) -> Iterator[tuple[re.Pattern[str], str]]:
    for found in _COPY.finditer(text):
        yield _REMOTE, found[0]


def is_word(name: str) -> bool:
    """Whether a name is a word that logs use for anything."""
    return name.lower() in _COMMON


def is_public(name: str) -> bool:
    """Whether a host is a site of the public."""
    *_, above, site, ending = ("", "", *name.lower().split("."))
    return ending in _TOP and (site in _PUBLIC or (site in _SECOND and above in _PUBLIC))


def _is_host(name: str) -> bool:
    *_, site, ending = ("", *name.lower().split("."))
    return not (
        len(name) < 3
        or not name.isascii()
        or name.lower() in _COMMON
        or is_public(name)
        or (site and ending in _ENDINGS)
        or ".so." in name
        or _NO_HOST.fullmatch(name)
    )
