"""The fix of a known issue that the facts ask for, with its own commands."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from npudoctor import knowledge
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.records import record

from .messages import python as messages

_STATIC_TLS = ": cannot allocate memory in static TLS"
_VERSION = r": version [`'‘\"]?((?:GLIBCXX|CXXABI)_\d{1,3}(?:\.\d{1,3}){0,3})"
_SELF_BUILT = "P071"


@record(frozen=True)
class Remedy:
    """What to do: a sentence, and commands that can be run as they are."""

    hint: str | None
    commands: tuple[str, ...]


def is_excluded(cause: Pitfall, python: PythonEnvironment) -> bool:
    """Whether the facts speak against a cause: a published wheel was not built by the user."""
    release = python.torch_npu.version if python.torch_npu is not None else ""
    return cause.id == _SELF_BUILT and "+" not in release and knowledge.compatibility().release(release) is not None


def chosen_remedy(
    cause: Pitfall, said: str, python: PythonEnvironment | None = None, library_path: Sequence[str] = ()
) -> Remedy:
    """The fix of `cause` that fits the message `said`, this Python, and the entries of LD_LIBRARY_PATH."""
    special = _BY_MESSAGE.get(cause.id)
    found = special(said, python.prefix if python and python.prefix else "/usr", library_path) if special else None
    return found or Remedy(next(iter(cause.advice), None), cause.commands)


def _load_first(said: str, prefix: str, library_path: Sequence[str]) -> Remedy | None:  # noqa: ARG001
    folder, library = posixpath.split(_last_word(said.partition(_STATIC_TLS)[0]))
    if _STATIC_TLS not in said or not library.startswith("libgomp"):
        return None
    if not folder.startswith("/"):
        hint = messages.FIND_AND_LOAD_FIRST.text(library=library)
        return Remedy(hint, (f"find {prefix} -name '{library}'",))
    path = posixpath.normpath(f"{folder}/{library}")
    return Remedy(messages.LOAD_FIRST.text(library=library), (f"export LD_PRELOAD={path}",))


def _last_word(said: str) -> str:
    """The end of a text, back to a blank, a colon or a quotation mark."""
    return re.split(r"[\s:'\"]", said[-4096:])[-1]


def _newer_library_first(said: str, prefix: str, library_path: Sequence[str]) -> Remedy | None:
    match = re.search(_VERSION, said)
    path = _last_word(said[: match.start()]) if match is not None else ""
    if match is None or not path.startswith("/") or not posixpath.basename(path).startswith("libstdc++.so.6"):
        return None
    version = match[1]
    folder, own = posixpath.normpath(posixpath.dirname(path)), f"{prefix}/lib"
    contains = f"grep -c {version} {own}/libstdc++.so.6  # 0: too old as well"
    entries = [entry for entry in library_path if posixpath.normpath(entry) == folder]
    if entries:
        rest = ":".join(entry for entry in library_path if entry not in entries)
        hint = messages.REMOVE_FROM_LIBRARY_PATH.text(entry=entries[0], path=path, version=version)
        return Remedy(hint, (f"export LD_LIBRARY_PATH={rest}", f"grep -n {entries[0]} ~/.bashrc ~/.profile"))
    if folder == posixpath.normpath(own):
        hint = messages.NEWER_IN_ENVIRONMENT.text(path=path, version=version)
        return Remedy(hint, (f"conda install -p {prefix} -c conda-forge libstdcxx-ng",))
    hint = messages.ENVIRONMENT_FIRST.text(path=path, version=version, own=own)
    return Remedy(hint, (contains, f"export LD_LIBRARY_PATH={own}:$LD_LIBRARY_PATH"))


_BY_MESSAGE: dict[str, Callable[[str, str, Sequence[str]], Remedy | None]] = {
    "P033": _load_first,
    "P098": _newer_library_first,
}
