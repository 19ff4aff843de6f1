"""A run with pseudonyms for names, users, addresses and serial numbers, for those who help from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from npudoctor.data import to_data
from npudoctor.fleet import gather, intake, line, merge
from npudoctor.fleet.digest import Digest
from npudoctor.fleet.outcomes import Outcome
from npudoctor.fleet.store import Run
from npudoctor.privacy import identifying_fields, redaction
from npudoctor.privacy.identifying_fields import Found
from npudoctor.records import replace


def copy(paths: Sequence[str], folder: str) -> Run:
    """Write the answers of a run, or of files and folders, with pseudonyms as a new run; raises BadInput and OSError.

    A node has the same pseudonym wherever it is named, in every answer.
    """
    answers = list(_answers(paths))
    names = _pseudonyms(answers)
    run = Run(folder)
    run.begin([names.apply(outcome.node) for outcome, _ in answers])
    for outcome, digest in answers:
        kept = redaction.apply_to_texts(outcome, names.apply)
        run.keep(kept, None if digest is None else line.pack(redaction.apply_to_texts(digest, names.apply)))
    return run


def _answers(paths: Sequence[str]) -> Iterator[tuple[Outcome, Digest | None]]:
    fleet, run = gather.stored_fleet(paths)
    digests: dict[str, Digest] = {}
    damaged: dict[str, Outcome] = {}
    if run is not None:
        for name in (member.name for member in fleet.members):
            try:
                if (content := run.content(name)) is not None:
                    digests[name] = line.read(content)
            except line.Garbled as problem:  # in what a merge does not read
                damaged[name] = replace(fleet.outcomes[name], kind="garbled", detail=str(problem))
    else:
        for _, digest in intake.of_files(paths):
            if digest is not None:
                digests[merge.name_for(digest, digests, fleet.names)] = digest
    for name in fleet.names:
        digest = digests.get(name)
        if digest is not None and digest.identity.hold:  # who holds it is a name without a form
            _, _, path = digest.identity.hold.rpartition(" (")
            identity = replace(digest.identity, hold=f"no reason given ({path}")
            digest = replace(digest, identity=identity)
        yield damaged.get(name, fleet.outcomes[name]), digest


def _pseudonyms(answers: Sequence[tuple[Outcome, Digest | None]]) -> redaction.Pseudonyms:
    found = Found({})
    nodes = dict.fromkeys(outcome.node for outcome, _ in answers)
    told = []
    for outcome, digest in answers:
        told.append(outcome.detail or "")
        for by in re.finditer(r"\(by ([^\s,()]{1,32}),", outcome.detail or ""):
            found.user(by[1])
        if digest is None:
            continue
        about = digest.identity
        for name in (digest.name, about.hostname or "", *(npu.switch or "" for npu in about.npus.values())):
            found.host(name)
        found.user(about.user or "")
        identity = to_data(about)
        told += identifying_fields.texts([identity, to_data(digest.report), digest.events])
    found.in_prose("\n".join(dict.fromkeys(told)))
    found.addresses |= {name for name in nodes if identifying_fields.is_address(name)}
    names = redaction.Pseudonyms(found)
    width = len(str(len(nodes)))
    ours = {name: f"host-{number:0{width}}" for number, name in enumerate(nodes, 1)}
    ours = {name: word for name, word in ours.items() if not identifying_fields.is_address(name)}
    short = {name.partition(".")[0]: word for name, word in ours.items() if name.partition(".")[0] not in ours}
    others = [name for name in names.hosts if name not in ours and name not in short]
    names.hosts = {name: f"host-{number}" for number, name in enumerate(others, len(nodes) + 1)} | short | ours
    return names


__all__ = ["copy"]
