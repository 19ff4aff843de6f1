"""CANN: which of the installed versions its usual link leads to."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from npudoctor.facts.cann.toolkits import Cann, CannInstall
from npudoctor.knowledge.patterns import canonical_version
from npudoctor.records import record
from npudoctor.sdk import (
    Host,
    Note,
    Parameters,
    Refused,
    SetLink,
    Step,
    fix,
    mapping_process,
    real_path,
    untrusted_writer,
    writing,
)

from . import messages

OWN = "# Written by npudoctor (cann.switch)"
_PLAIN_VERSION = r"(?a)[\w.+-]+"
_PLAIN_PATH = r"(?a)/[\w@+=:,./-]+"
_ROOT = r"(?P<prefix>/.+?)/(?:cann-[^/]+|ascend-toolkit/[^/]+)"


@record(frozen=True)
class Switch(Parameters):
    """`to` is a version such as 8.5.0, or the folder of an installed CANN. `modulefile` is the path of a modulefile to
    write instead of moving the link."""

    to: str = ""
    modulefile: str = ""


@fix("cann.switch", resolves=("cann.installed",))
def switch(asked: Switch, host: Host, cann: Cann) -> Iterator[Step | Note]:
    """Move the usual CANN link to another installed version.

    From 8.5 the link is `cann`, up to 8.3 `ascend-toolkit/latest`; both are moved where both are there. Refused while a
    process has files of the old version mapped. With `modulefile` no link is moved: a modulefile for Environment
    Modules or Lmod is written.
    """
    chosen = _choose(asked.to, cann)
    script = f"{chosen.root}/set_env.sh"
    if host.user.uid == 0 and (problem := untrusted_writer(host, script, only_root=True)):
        raise Refused(messages.CANN_NOT_TRUSTED.text(script=script, problem=problem))
    if asked.modulefile:
        if not re.fullmatch(r"(/[\w@+=:,.-]+)+", asked.modulefile):
            raise Refused(messages.NOT_A_PATH.text(path=asked.modulefile))
        if not host.exists(script):
            raise Refused(messages.NO_OWN_SCRIPT.text(path=chosen.root))
        if host.exists(asked.modulefile) and OWN not in host.read(asked.modulefile):
            raise Refused(messages.NOT_OURS.text(path=asked.modulefile))
        yield Note(messages.MODULE_RELEASES.text())
        yield from writing(host, asked.modulefile, _modulefile(chosen, script))
        return
    links = list(_links(host, chosen.root))
    for _, old in links:
        if old and (pid := mapping_process(host, re.escape(f"{old}/"))):
            raise Refused(messages.IN_USE.text(pid=pid, path=old))
    if links and host.user.uid != 0:
        yield Note(messages.OTHERS_NOT_VISIBLE.text())
    if links:
        yield Note(messages.SHELLS_KEEP_CANN.text())
    for link, _ in links:
        yield SetLink(link, _target(host, link, chosen.root))


def _choose(to: str, cann: Cann) -> CannInstall:
    known = [one.stated or one.root for one in cann.installs]
    if not to:
        raise Refused(messages.NAME_CANN.text(known=known), instead="--set to=VERSION")
    found = [
        one
        for one in cann.installs
        if to.rstrip("/") in (one.root, *one.names)
        or (one.stated and canonical_version(one.stated) == canonical_version(to))
    ]
    if len(found) != 1:
        raise Refused(messages.NOT_ONE_CANN.text(asked=to, known=[one.root for one in found] or known))
    return found[0]


def _links(host: Host, root: str) -> Iterator[tuple[str, str]]:
    """The usual links of a prefix that do not lead to this CANN yet, with the folder that each leads to now."""
    match = re.fullmatch(_ROOT, root)
    if match is None:
        raise Refused(messages.NO_USUAL_LINK.text(path=root))
    prefix, is_new = match["prefix"], posixpath.basename(root).startswith("cann-")
    old = f"{prefix}/ascend-toolkit/latest"
    usual = f"{prefix}/cann" if is_new else old
    if host.read_link(usual) is None and host.exists(usual):
        raise Refused(messages.LINK_IS_FOLDER.text(path=usual))
    for link in (usual, old) if is_new else (usual,):
        leads = host.read_link(link) is not None
        now = real_path(host, link) if leads else ""
        if now != root and (leads or link == usual):
            yield link, now


def _target(host: Host, link: str, root: str) -> str:
    """What is written into a link: relative, unless it is absolute now."""
    now = host.read_link(link) or ""
    return root if now.startswith("/") else posixpath.relpath(root, posixpath.dirname(link))


def _modulefile(chosen: CannInstall, script: str) -> str:
    """The text of a modulefile; refused where a value would be more than a plain word to Tcl, which runs it."""
    if not re.fullmatch(_PLAIN_PATH, script):
        raise Refused(messages.NOT_A_PATH.text(path=script))
    names = (chosen.stated or "", posixpath.basename(chosen.root))
    version = next((name for name in names if re.fullmatch(_PLAIN_VERSION, name)), None)
    if version is None:
        raise Refused(messages.NOT_A_VERSION.text(version=names[0] or names[1]))
    return (
        f"#%Module4.6\n{OWN}; undo with `npudoctor undo`.\n"
        f"module-whatis {{CANN {version}}}\nconflict cann\nsource-sh bash {{{script}}}\n"
    )
