"""What a job across nodes relies on: its rank table, and the super pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from npudoctor.findings import Finding
from npudoctor.fleet.checks import messages as say
from npudoctor.fleet.checks._shared import by, differing, names, on, peers, repeated_keys
from npudoctor.fleet.digest import RankTable
from npudoctor.fleet.merge import Fleet, Member, split
from npudoctor.sdk import NotApplicable, check


@check("fleet.rank-table")
def rank_table(fleet: Fleet) -> Iterator[Finding]:
    """Rank table equal on all nodes and true

    Its servers answered, its addresses are those of the NPUs, and its ranks are 0 to n-1.
    """
    having = [(member, table) for member in fleet.members if (table := member.identity.rank_table) is not None]
    if not having:
        raise NotApplicable("no node has a rank table")
    for problem, rows in by(having, lambda row: row[1].problem).items():
        if problem:
            yield on(say.TABLE_PROBLEM, names(one for one, _ in rows), problem=problem)
    digest_of = lambda one: one.identity.rank_table and one.identity.rank_table.digest  # noqa: E731
    found = split("rank table", "", fleet.members, digest_of, fleet.golden)
    if found is not None and found.norm is None:
        yield from differing(say.TABLE_DIFFERS, say.TABLE_TIE, [found])
    elif found is not None:
        yield on(say.TABLE_DIFFERS, names(found.odd), peers=peers(found))
    for digest, rows in by(having, lambda row: row[1].digest).items():
        if digest:
            yield from _compare_table(fleet, rows[0][1], names(one for one, _ in rows))


def _compare_table(fleet: Fleet, table: RankTable, nodes: tuple[str, ...]) -> Iterator[Finding]:
    places: dict[str, Member] = {}
    for member in fleet.members:
        for own in (member.name, member.identity.hostname, *member.identity.addresses):
            places.setdefault(own or "", member)
    unknown = [server.id for server in table.servers if server.id not in places]
    if unknown:
        yield on(say.TABLE_SERVER, nodes, count=len(unknown), servers=unknown)
    ranks = [rank for server in table.servers for _, _, rank in server.devices if rank is not None]
    if ranks and sorted(ranks) != list(range(len(ranks))):
        twice = sorted(rank for rank, number in Counter(ranks).items() if number > 1)
        lacking = sorted(set(range(len(ranks))) - set(ranks))
        problem = f"{_some(twice)} twice" if twice else f"{_some(lacking)} missing"
        yield on(say.TABLE_RANKS, nodes, last=len(ranks) - 1, problem=problem)
    for server in table.servers:
        owner = places.get(server.id)
        for device, stated, _ in server.devices if owner else ():
            npu = owner.identity.npus.get(device) if owner and device is not None else None
            if owner and npu is not None and npu.address and stated and stated != npu.address:
                yield on(
                    say.TABLE_ADDRESS, [owner.name], device=device, node=owner.name, stated=stated, actual=npu.address
                )


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")


@check("fleet.super-pod")
def super_pod(fleet: Fleet) -> Iterator[Finding]:
    """SDIDs and server indices unique in each super pod

    Two equal SDIDs end a job with EI0014.
    """
    pods = by(
        (member for member in fleet.members if "super_pod_id" in member.identity.super_pod),
        lambda one: one.identity.super_pod["super_pod_id"],
    )
    if not pods:
        raise NotApplicable("no node says that it is in a super pod")
    if len(pods) > 1:
        yield on(say.SPANNING, names(one for rows in pods.values() for one in rows), count=len(pods), pods=sorted(pods))
    for pod, members in pods.items():
        same = by(members, lambda one: one.identity.super_pod.get("server_index"))
        for index, rows in same.items():
            if index is not None and len(rows) > 1:
                yield on(say.SERVER_INDEX, names(rows), index=index, pod=pod)
        used = [
            (npu.sdid, member.name, device)
            for member in members
            for device, npu in member.identity.npus.items()
            if npu.sdid is not None
        ]
        twice = repeated_keys(used, lambda row: (row[0],), lambda row: f"{row[1]} {row[2]}")
        for nodes, found in by(twice.items(), lambda item: tuple(dict.fromkeys(row[1] for row in item[1]))).items():
            (sdid,), uses = found[0]
            where = [f"{name} NPU {device}" for _, name, device in uses]
            yield on(say.SDID_TWICE, nodes, sdid=sdid, pod=pod, count=len(uses), where=where)
