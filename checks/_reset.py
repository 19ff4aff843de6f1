"""What a reset of a chip takes down with it, and who uses that."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips, NodeChip
from npudoctor.facts.node.holders import CardHolder, CardHolders, State
from npudoctor.records import record

from .messages import npu as messages

_SHOWN = 3
USERS = "fuser -v /dev/davinci*  # as root, on the host: the processes that have an NPU open"


@record(frozen=True)
class Reset:
    """A text that says what a reset takes down and who uses it, and the commands to run, in their order."""

    text: str
    commands: tuple[str, ...]

    def after(self, advice: str) -> str:
        """Advice that leads to the reset, followed by what the reset does."""
        return f"{advice} {self.text}"


def reset_of(subject: str, cards: Chips | None, holders: CardHolders | None, *, others: Iterable[str] = ()) -> Reset:
    """The reset of the chip `subject` (npu:3, npu:3/chip:1), and of `others` that it leaves as they are; `cards` and
    `holders` are None where not known."""
    extents: dict[str, None] = {}
    alone: list[str] = []
    commands, down, used = [USERS], set[str](), list[NodeChip]()
    known = True
    for one in (subject, *others):
        if one in down:
            continue
        extent, also, affected, sure = _extent(one, cards)
        if extent == messages.RESET_ALONE.text(subject=one):
            alone.append(one)
        elif not extents or sure:
            extents[extent] = None
        npu, _, chip = one.removeprefix("npu:").partition("/chip:")
        down |= {each.subject for each in affected or () if sure or each.subject.partition("/")[0] == f"npu:{npu}"}
        used += affected or ()
        known = known and affected is not None
        numbered = cards is None or all(each.family != "950" for each in cards.chips)
        place = f"-i {npu} -c {chip or 0}" if numbered else f"-i {npu}"  # npu-smi refuses -c on 950
        commands.append(f"npu-smi set -t reset {place}  # as root, on the host, {_when(affected, holders)}; {also}")
    if alone:
        last = (
            messages.RESET_EACH_ALONE.text(subjects=alone) if alone[1:] else messages.RESET_ALONE.text(subject=alone[0])
        )
        extents[last] = None
    return Reset(f"{' '.join(extents)} {_users(tuple(used) if known else None, holders)}", tuple(commands))


def _extent(subject: str, cards: Chips | None) -> tuple[str, str, tuple[NodeChip, ...] | None, bool]:
    """What a reset takes down, as a sentence, in the words of a comment and as chips (None where the family is not
    known), and whether it takes down all of these for sure."""
    chips = cards.chips if cards is not None else ()
    own = next((chip for chip in chips if chip.subject == subject), None)
    family = knowledge.hardware().family(own.family or "") if own is not None else None
    if own is None or family is None or family.reset_scope is None:
        return messages.RESET_UNKNOWN.text(), messages.TAKES_SEVERAL.text(), None, False
    plan = knowledge.hardware().link_plan(family.id, len(chips), own.subsystem)
    scope = family.reset_scope
    if scope == "server" and plan is not None and not (plan.group_size or plan.module_size):
        scope = "npu"  # a board in a slot of its own, without HCCS
    if scope == "server" and len(chips) > 1:
        if family.chips_per_card[0] > 1:
            said = messages.RESET_SUPERPOD.text(subject=subject, count=len(chips))
            return said, messages.TAKES_SEVERAL.text(), chips, False
        said = messages.RESET_SERVER.text(subject=subject, count=len(chips))
        return said, messages.TAKES_ALL.text(count=len(chips)), chips, True
    same = tuple(chip for chip in chips if chip.npu_id == own.npu_id)
    if scope == "group" and plan is not None and plan.group_size:
        place = chips.index(own) // plan.group_size * plan.group_size
        same = chips[place : place + plan.group_size]
    others = [chip.subject for chip in same if chip is not own]
    if not others:
        return messages.RESET_ALONE.text(subject=subject), messages.TAKES_NONE.text(), same, True
    return messages.RESET_OTHERS.text(subject=subject, others=others), messages.TAKES.text(others=others), same, True


def _when(affected: tuple[NodeChip, ...] | None, holders: CardHolders | None) -> str:
    """When the reset may be run, as far as npu-smi tells."""
    pids = list(dict.fromkeys(holder.row.pid for holder in _using(affected, holders)))
    if not pids:
        return messages.WHEN_UNUSED.text()
    if len(pids) > _SHOWN:
        return messages.WHEN_ALL_ENDED.text(count=len(pids))
    return messages.WHEN_ENDED.text(pids=pids, count=len(pids))


def _using(affected: tuple[NodeChip, ...] | None, holders: CardHolders | None) -> list[CardHolder]:
    """The running processes on these chips, or on any chip where they are not known."""
    return [
        holder
        for holder in (holders.holders if holders is not None else ())
        if holder.state is not State.DEAD
        and (affected is None or any(_is_on(holder.row.npu_id, holder.row.chip_id, chip) for chip in affected))
    ]


def _users(affected: tuple[NodeChip, ...] | None, holders: CardHolders | None) -> str:
    """Who uses these chips, or any chip where they are not known."""
    if holders is None:
        return messages.RESET_USERS_UNKNOWN.text()
    rows = _using(affected, holders)
    users: dict[int, tuple[str, str | None, list[str]]] = {}
    for holder in rows:
        process = holder.process
        name = (process.name if process is not None else None) or holder.row.name or messages.NAMELESS.text()
        users.setdefault(holder.row.pid, (name, process.username if process is not None else None, []))
        users[holder.row.pid][2].append(f"npu:{holder.row.npu_id}")
    if not users:
        return messages.RESET_NO_USERS.text()
    told = [_user(pid, *user) for pid, user in list(users.items())[:_SHOWN]]
    more = len(users) - len(told)
    return messages.RESET_USERS.text(processes=[*told, *([messages.AND_MORE.text(count=more)] if more else [])])


def _is_on(npu_id: int | None, chip_id: int | None, chip: NodeChip) -> bool:
    return npu_id == chip.npu_id and (chip_id is None or chip.chip_id is None or chip_id == chip.chip_id)


def _user(pid: int, name: str, username: str | None, places: Iterable[str]) -> str:
    where = list(dict.fromkeys(places))
    if username:
        return messages.RESET_USER.text(name=name, pid=pid, user=username, places=where)
    return messages.RESET_PROCESS.text(name=name, pid=pid, places=where)
