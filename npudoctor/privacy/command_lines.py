"""What npudoctor keeps of the command line of a process: which program it runs, and how many ranks it was started with.

Arguments may hold anything: passwords, names of customers, megabytes of text. So only what is on a list is kept: the
program, the script or `-m MODULE` of an interpreter or a launcher, an interpreter's flags, and options of launchers and
services with a number or an IP address as value. The rest becomes one last word, `(+3 arguments #5f2a9c01d3e7)`: how
many there were, and a digest that tells processes with equal arguments from others. Its key is made anew by each
npudoctor and stored nowhere, so that no reader can try guesses against a digest; facts and recordings then hold a pid
in its place.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from npudoctor.privacy.credentials import mask

LONGEST_LINE = 1 << 16
"""As many bytes of a command line are examined where it is read as a whole."""

LONGEST_WORD = 256
MOST_WORDS = 24
"""No more words are kept; a launcher needs fewer."""

_REST = r"\(\+([0-9]{1,7}) arguments? #([0-9a-f]{1,16})\)"
_PATH = r"-?[\w./+~][\w./+~@-]{0,254}:?"
_MODULE = r"[A-Za-z_]\w{0,63}(?:\.\w{1,64}){0,8}"
_PYTHON = r"(?:python|pypy)[\d.]{0,8}"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "perl", "ruby", "node", "Rscript"})
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "msrun", "mpirun", "mpiexec", "srun"})
_LAUNCHING_MODULES = ("torch.distributed.", "torch_npu.", "accelerate.", "deepspeed.")
_PYTHON_FLAGS = r"-[bBdEiIOPqsSuvx]{1,6}"
"""Flags of Python that take no value; torchrun and others start their ranks with `-u`."""

_LAUNCHER_FLAGS = frozenset(
    {
        *("--standalone", "--module", "--no-python", "--no_python", "--use-env", "--use_env"),
        *("--multiprocessing-fork", "--headless"),
    }
)
_LAUNCHER_OPTIONS = frozenset(
    {
        *("nproc_per_node", "nnodes", "node_rank", "local_rank", "world_size", "master_port", "port"),
        *("num_processes", "num_machines", "machine_rank", "num_gpus", "num_nodes", "tensor_parallel_size"),
        *("worker_num", "local_worker_num", "data_parallel_size", "data_parallel_size_local"),
        *("server_port", "data_parallel_rpc_port", "disaggregation_bootstrap_port"),
    }
)
_ADDRESS_OPTIONS = frozenset(
    {
        *("host", "server_name", "master_addr", "data_parallel_address", "dist_init_addr", "rdzv_endpoint"),
        *("main_process_ip", "config", "kv_transfer_config", "uds"),
    }
)
"""Options of which the name is kept, and the value where it is an address: a reader must know that the default does not
hold. A path (--config, --uds) is not kept; of --kv-transfer-config the name of a connector is kept."""

_CONNECTOR = r"\"kv_connector\"\s{0,4}:\s{0,4}\"((?:Mooncake|LLMDataDist)[A-Za-z0-9]{0,40})\""
"""Connectors of vLLM that move data over the ports of the NPUs."""

_SERVERS = frozenset({"vllm", "sglang", "lmdeploy", "swift"})
_SERVICES = frozenset({"serve", "deploy"})
"""Commands of servers that start a service; their other commands may name a port as clients."""
_SERVED = frozenset({"api_server", "proxy"})
"""What `lmdeploy serve` starts."""

_NUMBER = r"[0-9]{1,6}(?::[0-9]{1,6})?"
_ADDRESS = (
    r"localhost(?::[0-9]{1,5})?|(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?"
    r"|\[?(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\]:[0-9]{1,5}|\])?"
)
_LISTENS = r"\*:[0-9]{1,5}"
"""redis-server and others write the port that they listen on into their title."""

_SPAWNED = ("from multiprocessing.spawn import spawn_main; spawn_main(", "spawn_main(")
SPAWN_MARK = "spawn_main(…)"
"""Stands for the code that multiprocessing hands to a child by `-c`."""


def reduce_line(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line that may be kept; what is reduced already stays as it is."""
    line = tuple(words)
    is_reduced = [re.fullmatch(_REST, word) is not None for word in line[-2:]]
    if is_reduced in ([True], [False, True]) and reduce_line(line[:-1]) == line[:-1]:
        return line
    line = tuple(part for word in line for part in _parts(word))
    places = sorted(_places(line))[:MOST_WORDS]
    kept = tuple(line[place] for place in places)
    rest = [word for place, word in enumerate(line) if place not in places]
    return (*kept, _rest(rest)) if rest else kept


def _parts(word: str) -> tuple[str, ...]:
    """A word of which only a part may be kept: code of multiprocessing, an option that names no IP address, and the
    name of a connector."""
    if word.startswith(_SPAWNED):
        return (SPAWN_MARK,)
    parts: list[str] = []
    option, equals, value = word.partition("=")
    while (
        equals and _is_of(option, _ADDRESS_OPTIONS) and not re.fullmatch(_ADDRESS, value) and len(parts) <= MOST_WORDS
    ):
        parts.append(option)
        word = value
        option, equals, value = word.partition("=")
    if word.startswith("{") and (connector := re.search(_CONNECTOR, word[:LONGEST_LINE])):
        word = f'{{"kv_connector":"{connector[1]}"}}'
    return (*parts, word)


def _is_of(word: str, options: frozenset[str]) -> bool:
    return word.startswith("-") and word.lstrip("-").replace("-", "_") in options


def show_words(words: Sequence[str]) -> str:
    """A reduced command line for a person: the digest says nothing to them."""
    return re.sub(r" #[0-9a-f]{1,16}\)\Z", ")", " ".join(words))


def label_lines(lines: Mapping[int, Sequence[str]]) -> dict[int, tuple[str, ...]]:
    """Command lines by pid, reduced, with the lowest pid that has equal arguments in place of the digest.

    The same for the same processes, live and recorded, and it tells even less.
    """
    found = {pid: reduce_line(line) for pid, line in lines.items()}
    first: dict[str, int] = {}
    for pid in sorted(found):
        first.setdefault("".join(found[pid][-1:]), pid)
    return {pid: _label_line(line, first) for pid, line in found.items()}


def _label_line(line: tuple[str, ...], first: Mapping[str, int]) -> tuple[str, ...]:
    match = re.fullmatch(_REST, line[-1]) if line else None
    return (*line[:-1], _summary(int(match[1]), str(first[line[-1]]))) if match else line


def _rest(words: Sequence[str]) -> str:
    text = "\0".join(words).encode("utf-8", "surrogatepass")
    return _summary(len(words), hashlib.blake2s(text, key=_key(), digest_size=6).hexdigest())


def _summary(count: int, digest: str) -> str:
    return f"(+{count} argument{'' if count == 1 else 's'} #{digest})"


@functools.cache
def _key() -> bytes:
    return os.urandom(32)


@functools.lru_cache(maxsize=1024)  # a node has hundreds of processes of few programs
def _may_be_shown(word: str) -> bool:
    """Whether a word looks like the name of a program, a file or a module, and not like a credential."""
    return len(word) <= LONGEST_WORD and re.fullmatch(_PATH, word) is not None and mask(word) == word


def _places(line: Sequence[str]) -> Iterator[int]:
    """Where the words stand that are kept."""
    if not line:
        return
    if _may_be_shown(line[0]):
        yield 0
    for place, word in enumerate(line[1:], 1):
        following = line[place + 1] if place + 1 < len(line) else ""
        name, equals, value = word.partition("=")
        counts = _is_of(name, _LAUNCHER_OPTIONS)
        if _is_of(name, _ADDRESS_OPTIONS):
            if equals and not re.fullmatch(_ADDRESS, value):
                continue  # more options in one word than a launcher has
            yield place
            if not equals and (re.fullmatch(_ADDRESS, following) or re.fullmatch(rf"\{{{_CONNECTOR}\}}", following)):
                yield place + 1
        elif (
            word in (*_LAUNCHER_FLAGS, SPAWN_MARK)
            or re.fullmatch(_LISTENS, word)
            or (word in _SERVICES and line[place - 1].rpartition("/")[2] in _SERVERS)
            or (word in _SERVED and line[place - 1] in _SERVICES)
            or (counts and equals and re.fullmatch(_NUMBER, value))
        ):
            yield place
        elif counts and not equals and re.fullmatch(_NUMBER, following):
            yield from (place, place + 1)
    program = line[0].rpartition("/")[2]
    if re.fullmatch(_PYTHON, program):
        yield from _python_script(line)
    elif program in _LAUNCHERS:
        yield from _launched_script(line, 1)
    elif program in _SHELLS and len(line) > 1 and _may_be_shown(line[1]) and not line[1].startswith("-"):
        yield 1


def _python_script(line: Sequence[str]) -> Iterator[int]:
    """The flags of Python, and the script or module that it runs; nothing after an option that is not known."""
    place = 1
    while place < len(line) and re.fullmatch(_PYTHON_FLAGS, line[place]):
        yield place
        place += 1
    word, following = (*line[place : place + 2], "", "")[:2]
    if word == "-m" and re.fullmatch(_MODULE, following):
        yield from (place, place + 1)
        if f"{following}.".startswith(_LAUNCHING_MODULES):
            yield from _launched_script(line, place + 2)
    elif word == "-c":
        yield place
    elif not word.startswith("-") and _may_be_shown(word):
        yield place
        if word.rpartition("/")[2] in _LAUNCHERS:
            yield from _launched_script(line, place + 1)


def _launched_script(line: Sequence[str], place: int) -> Iterator[int]:
    """The script that a launcher starts: its first word that is neither an option nor perhaps the value of one, and has
    the name of a script."""
    while place < len(line):
        word = line[place]
        if not word.startswith("-"):
            if word.endswith((".py", ".sh")) and _may_be_shown(word):
                yield place
            return
        place += 1 if "=" in word or word in _LAUNCHER_FLAGS else 2
