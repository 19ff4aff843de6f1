"""Who decides what a Python executes: as that user it runs, where root would run it.

Judged are the interpreter with every link and folder on its way, the program that its `#!` line names, the environments
it belongs to (pyvenv.cfg, its home, lib and what is in site-packages, the folders that .pth files name), and every
path that a variable of a loader or of the vendor's software names, with the entries of a folder that PYTHON… or LD_…
names. Where code in a .pth file computes what it leads to, the Python is started as a user who owns nothing, to see
what it reads; one that this user cannot start, below a private folder of root, is judged without that. Below the
entries of site-packages and of each package there, files are not examined: that would take seconds on a large
environment.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping

from npudoctor.findings import Because
from npudoctor.host import Unavailable, User
from npudoctor.host.live.identity import own_user, private_folder, user_of
from npudoctor.host.live.trust import MOST_LINKS, Writer, foreign_writer, writer_within

PATH_VARIABLES = frozenset(
    {"HOME", "GCONV_PATH", "LOCPATH", "OPENSSL_CONF", "OPENSSL_MODULES", "BASH_ENV", "ENV", "VIRTUAL_ENV"}
    | {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "ASCEND_AICPU_PATH"}
    | {"ASCEND_CACHE_PATH", "ASCEND_WORK_PATH"}
    | {"ASCEND_DRIVER_PATH", "ASCEND_NNAE_PATH", "ATB_HOME_PATH", "TBE_IMPL_PATH", "TOOLCHAIN_HOME", "CONDA_PREFIX"}
    | {"TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME"}
)
"""Variables that name what a Python loads, or a folder it loads from; so do all that begin with these."""

PATH_BEGINNINGS = ("LD_", "PYTHON")
HANDED_ON = (
    *(*PATH_BEGINNINGS, *PATH_VARIABLES, "PATH", "ASCEND_", "HCCL_", "ATB_", "TORCH_", "TASK_QUEUE_", "OMP_", "GLOO_"),
    *("LANG", "LC_", "TZ", "TERM", "NPUDOCTOR_"),
)
"""Of root's own variables, those that a Python of another user gets: the rest may hold a secret."""

_SEPARATORS = {"LD_PRELOAD": "[: ]", "LD_AUDIT": "[: ]", "LD_LIBRARY_PATH": "[:;]"}
_LITERAL = r"['\"](/[^'\"\n]{1,4096})['\"]"
_FILE_LIMIT = 1 << 20


Start = Callable[[str, Mapping[str, str]], Collection[str]]
"""Starts a Python as a user who owns nothing, with these variables; the absolute paths that it looks at."""

_PTH_OF_TOOLS = (
    r"import (_virtualenv|(__editable__\w+_finder); ?\2\.install\(\)|os; ?var = 'SETUPTOOLS_USE_DISTUTILS'.*)\s*"
)
"""What virtualenv and setuptools write: it leads nowhere, or to the folders that the module names."""


def python_user(python: str, variables: Mapping[str, str], start: Start | None = None) -> User | None:
    """As which user root runs this Python with these variables of its own; the rest as `who_decides`."""
    found = who_decides(python, variables, start)
    return found[0] if found else None


def who_decides(python: str, variables: Mapping[str, str], start: Start | None = None) -> tuple[User, str] | None:
    """The user who decides what this Python executes with these variables, and why it is that user; None: root.

    Raises Unavailable where a group, everybody, or more than one user decides.
    """
    found = _first_writer(python, variables, (), ())
    led: Collection[str] = ()
    if found is None and start is not None and _has_code(python, variables):
        led = start(python, _without_secrets(variables))
        found = _first_of(led, (), ())
    if found is None:
        return None
    why = found.reason
    if found.uid is not None:
        owner = user_of(found.uid)
        mine = (owner.uid,), (owner.gid,)
        found = _first_writer(python, variables, *mine) or _first_of(led, *mine)
        if found is None:
            return owner, why
    reason = f"{python} is not run by root: {found.reason}; name another Python with --python"
    raise Unavailable(reason, because=Because.NO_RIGHT)


def must_be_own(python: str, variables: Mapping[str, str], start: Start | None = None) -> None:
    """Raise Unavailable where root would run a Python in its own name and another user decides what that executes."""
    if os.geteuid() == 0 and (user := python_user(python, variables, start)):
        reason = f"{python} is not run by root: it, or what a variable names, belongs to {user.name}"
        raise Unavailable(reason, because=Because.NO_RIGHT)


def handed_on(variables: Mapping[str, str], user: User) -> dict[str, str]:
    """Of root's variables, what a Python that runs as another user gets."""
    kept = {name: value for name, value in variables.items() if name.startswith(HANDED_ON)}
    try:
        home = kept["HOME"] if os.stat(kept["HOME"]).st_uid == user.uid else "/"
    except (OSError, KeyError, ValueError):
        home = "/"
    return {**kept, "USER": user.name, "LOGNAME": user.name, "HOME": home}


def _without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Of root's variables, what may lead a .pth file somewhere."""
    return {
        name: value for name, value in variables.items() if name.startswith(HANDED_ON) or value.startswith(("/", "~"))
    }


TEMPORARY = ("TMPDIR", "TEMP", "TMP")
"""Variables that name the folder in which a program makes its temporary files (Python's tempfile takes all three)."""


def trusted_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables with which root runs a program: no temporary folder that another user could replace meanwhile."""
    return {
        name: value
        for name, value in variables.items()
        if name not in TEMPORARY or (value.startswith("/") and _writer_or_none(foreign_writer, value) is None)
    }


def trusted_path(value: str) -> str:
    """The entries of a PATH in which only root can put a program."""
    entries = (entry for entry in value.split(":") if entry.startswith("/"))
    return ":".join(entry for entry in entries if _writer_or_none(writer_within, entry) is None)


def _first_writer(
    python: str, variables: Mapping[str, str], users: Collection[int], groups: Collection[int]
) -> Writer | None:
    """The first besides root and these who can change what is executed."""

    def judge(path: str, *, within: bool) -> Writer | None:
        return _writer_or_none(writer_within if within else foreign_writer, path, users, groups)

    programs = list(_programs(python))
    for program in programs:
        # its folder too: a pyvenv.cfg may be there, and in a folder with the sticky bit anybody can put one
        found = judge(program, within=False) or judge(posixpath.dirname(program), within=True)
        if found:
            return found
    prefixes = list(_prefixes(programs))
    for prefix in prefixes:
        for path in (prefix, f"{prefix}/bin", f"{prefix}/pyvenv.cfg", f"{prefix}/lib", f"{prefix}/lib64"):
            if found := judge(path, within=True):
                return found
    for prefix in {os.path.realpath(prefix): None for prefix in prefixes}:
        for path in _in_libraries(prefix, users, groups):
            if found := judge(path, within=True):
                return found
    for path in _loaded_paths(variables, users, groups):
        if found := judge(path, within=True):
            return found
    return None


def _first_of(paths: Collection[str], users: Collection[int], groups: Collection[int]) -> Writer | None:
    """The first who can change one of these paths; what the kernel makes belongs to the reader."""
    judged = (path for path in paths if not path.startswith(("/proc/", "/sys/", "/dev/")))
    return next((found for path in judged if (found := _writer_or_none(writer_within, path, users, groups))), None)


def _has_code(python: str, variables: Mapping[str, str]) -> bool:
    """Whether a .pth file of this Python holds code that may compute what it leads to."""
    prefixes = [os.path.realpath(prefix) for prefix in _prefixes(list(_programs(python)))]
    bases = (variables.get("PYTHONUSERBASE", ""), posixpath.join(variables.get("HOME", "/"), ".local"))
    return any(
        line.startswith(("import ", "import\t")) and not re.fullmatch(_PTH_OF_TOOLS, line)
        for prefix in dict.fromkeys([*prefixes, *filter(None, bases)])
        for path in _pth_files(prefix)
        for line in _lines(path)
    )


def _pth_files(prefix: str) -> Iterator[str]:
    for library in ("lib", "lib64", "local/lib"):
        for entry in _entries(f"{prefix}/{library}"):
            if entry.name.startswith("python3"):
                for folder in ("site-packages", "dist-packages"):
                    found = _entries(f"{entry.path}/{folder}")
                    yield from (one.path for one in found if one.name.endswith(".pth"))


def _writer_or_none(judge, path: str, users: Collection[int] = (), groups: Collection[int] = ()) -> Writer | None:  # type: ignore[no-untyped-def]
    try:
        found: Writer | None = judge(path, users=users, groups={0, *groups})
    except OSError as problem:
        return Writer(path=path, uid=None, reason=f"{path} cannot be judged: {problem.strerror}")
    return found


def _programs(python: str) -> Iterator[str]:
    """An interpreter, where each of its links leads, and the program that starts it where it is a script."""
    seen: dict[str, None] = {}
    while python not in seen and len(seen) < MOST_LINKS:
        seen[python] = None
        try:
            python = posixpath.join(posixpath.dirname(python), os.readlink(python))
        except OSError:
            first = next(iter(_lines(python)), "")
            if not first.startswith("#!") or not first[2:].strip().startswith("/"):
                break
            python = first[2:].split()[0]
    yield from seen


def _prefixes(programs: Collection[str]) -> Iterator[str]:
    """The environments of an interpreter: beside it, where each of its links leads, and its venv's home."""
    seen = {posixpath.dirname(posixpath.dirname(program)): None for program in programs}
    for place in [*seen, *map(posixpath.dirname, programs)]:
        for line in _lines(f"{place}/pyvenv.cfg"):
            name, _, value = line.partition("=")
            if name.strip().lower() == "home" and value.strip().startswith("/"):
                seen[posixpath.dirname(value.strip().rstrip("/"))] = None
    yield from seen


def _in_libraries(prefix: str, users: Collection[int], groups: Collection[int]) -> Iterator[str]:
    """What of the libraries somebody else may be able to change, and what their .pth files name."""
    for library in ("lib", "lib64", "local/lib"):
        for entry in _entries(f"{prefix}/{library}"):
            if _is_suspect(entry, users, groups):
                yield entry.path
            if entry.name.startswith("python3") and entry.is_dir():
                yield from _in_packages(entry.path, users, groups, depth=1)
                for folder in ("site-packages", "dist-packages", "lib-dynload"):
                    yield from _in_packages(f"{entry.path}/{folder}", users, groups, depth=2)


def _in_packages(folder: str, users: Collection[int], groups: Collection[int], *, depth: int) -> Iterator[str]:
    for entry in _entries(folder):
        if _is_suspect(entry, users, groups):
            yield entry.path
        if depth == 2 and entry.is_dir(follow_symlinks=False):
            yield from _in_packages(entry.path, users, groups, depth=1)
        elif depth == 2 and entry.name.endswith((".pth", ".egg-link")):
            yield from _named_by_pth(folder, entry.path)


def _is_suspect(entry: os.DirEntry[str], users: Collection[int], groups: Collection[int]) -> bool:
    """Whether an entry is worth the whole judgement: most belong to root, and no other user can write them."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return True
    if stat.S_ISLNK(found.st_mode) or found.st_uid not in (0, *users):
        return True
    return bool(found.st_mode & 0o002) or bool(found.st_mode & 0o020 and found.st_gid not in (0, *groups))


def _named_by_pth(folder: str, path: str) -> Iterator[str]:
    """The folders that a .pth file adds, or that are in the module that it imports (editable installs)."""
    for line in _lines(path):
        if line.startswith(("import ", "import\t")):
            yield from re.findall(_LITERAL, line)
            for module in re.findall(r"import\s+(\w+)", line):
                yield from re.findall(_LITERAL, "\n".join(_lines(f"{folder}/{module}.py")))
        elif line.strip() and not line.startswith("#"):
            yield posixpath.join(folder, line.strip())


def _loaded_paths(variables: Mapping[str, str], users: Collection[int], groups: Collection[int]) -> Iterator[str]:
    """The paths that variables name, what can be imported or loaded there, and the user's own packages of a Python."""
    for name, path in _named_paths(variables):
        yield path
        if name.startswith(PATH_BEGINNINGS):
            yield from _in_packages(path, users, groups, depth=1)
        if name.startswith("PYTHON"):
            yield from _in_libraries(path, users, groups)
    if (home := variables.get("HOME", "")).startswith("/"):
        yield from _in_libraries(f"{home}/.local", users, groups)


def _named_paths(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables with the absolute paths that they name; a relative one begins in the working folder."""
    here = private_folder(own_user())
    for name, value in variables.items():
        if name not in PATH_VARIABLES and not name.startswith(PATH_BEGINNINGS):
            continue
        for part in map(str.strip, re.split(_SEPARATORS.get(name, ":"), value)):
            if "/" in part or (part and name in ("PYTHONPATH", "LD_LIBRARY_PATH")):
                yield name, posixpath.join(here, part)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _lines(path: str) -> list[str]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            return file.read(_FILE_LIMIT).decode("utf-8-sig", "replace").splitlines()
    except OSError:
        return []
