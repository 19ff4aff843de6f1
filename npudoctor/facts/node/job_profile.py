"""The environment that a job should have, as text for each kind of shell; the vendor's scripts are named, never run."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping

from npudoctor.facts.cann.packages import Nnal
from npudoctor.facts.cann.settings import CannSettings
from npudoctor.records import field, record, replace
from npudoctor.sdk import Refused

SHELLS = ("sh", "bash", "zsh", "fish", "csh", "systemd")
GUARD = 'if [ ! -d "${ASCEND_HOME_PATH:-}" ]; then'
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = ('[ "${ASCEND_HOME_PATH:-}" != ', 'case ":${')
"""How a line begins that an earlier file of ours has for a variable that is replaced, or that lacks folders."""

_NAME = r"(?a)[A-Za-z_]\w*"
_CONTROL = r"[\x00-\x1f\x7f]"
HEAD = "# Written by npudoctor (env.profile); `npudoctor undo` takes it back. The next run of the fix writes it anew.\n"


@record(frozen=True, kw_only=True)
class Profile:
    """What a profile does: CANN's script (and NNAL's, with the C++ ABI of torch), variables to set, and to unset.

    `repaired` are variables that something replaces after CANN's script was sourced, each with a folder that it lacks
    (empty: it leads nowhere); where ASCEND_HOME_PATH is still `home`, the script is sourced again for them. `appended`
    are folders put at the end of path lists that lack them.
    """

    settings: CannSettings | None = None
    home: str = ""
    repaired: Mapping[str, str] = field(default_factory=dict)
    appended: Mapping[str, str] = field(default_factory=dict)
    earlier: tuple[str, ...] = ()
    nnal: Nnal | None = None
    abi: int = 1
    sets: Mapping[str, str] = field(default_factory=dict)
    unsets: tuple[str, ...] = ()

    def validate(self) -> Profile:
        """The same; raises Refused for a name that is none, or a value that no profile can hold."""
        for name in (*self.sets, *self.unsets, *self.appended):
            if not re.fullmatch(_NAME, name):
                raise Refused(f"{name!r} is no name of a variable")
        for name, value in (*self.sets.items(), *self.appended.items(), *self.repaired.items()):
            if re.search(_CONTROL, value):
                raise Refused(f"the value of {name} holds a control character")
        for path in (self.settings.script if self.settings else None, self.nnal.set_env if self.nnal else None):
            if path and re.search(_CONTROL, path):
                raise Refused("the path of set_env.sh holds a control character")
        return self

    def with_earlier(self, text: str) -> Profile:
        """The same, with what an earlier file of ours set and unset, where this one says nothing of it."""
        sets: dict[str, str] = {}
        unsets: list[str] = []
        lines = text.splitlines()
        kept = [pair for pair in itertools.pairwise(lines) if pair[1].startswith(_KEPT)]
        for line in lines:
            words = shlex.split(line, comments=True) if re.match(r"(export|unset) ", line) else []
            if words[:1] == ["export"]:
                name, _, value = words[1].partition("=")
                sets[name] = value
            elif words:
                unsets += words[1:]
        return replace(
            self,
            earlier=tuple("\n".join(pair) for pair in kept),
            sets={**{name: value for name, value in sets.items() if name not in self.unsets}, **self.sets},
            unsets=tuple(name for name in dict.fromkeys([*unsets, *self.unsets]) if name not in self.sets),
        )


def _again(profile: Profile) -> Iterator[str]:
    """Each variable that was replaced later: a comment, and one line that sources the script again if it is."""
    script = profile.settings.script if profile.settings is not None else None
    if script is None or not profile.repaired:
        return
    here = f"{_KEPT[0]}{shlex.quote(profile.home)} ] ||"
    for name, folder in profile.repaired.items():
        yield (
            f"# {name} is replaced after CANN's script was sourced: it is sourced again where its part is missing.\n"
            + (
                f'{here} case ":${{{name}:-}}:" in *:{shlex.quote(folder)}:*) ;; *) . {shlex.quote(script)} ;; esac\n'
                if folder
                else f'{here} [ -d "${{{name}:-}}" ] || . {shlex.quote(script)}\n'
            )
        )


def _appended_lines(profile: Profile) -> Iterator[str]:
    for name, folders in profile.appended.items():
        first = shlex.quote(folders.partition(":")[0])
        yield f"# {name} with the folders that are missing at its end.\n" + (
            f'{_KEPT[1]}{name}:-}}:" in *:{first}:*) ;; '
            f'*) export {name}="${{{name}:+${name}:}}"{shlex.quote(folders)} ;; esac\n'
        )


def render(profile: Profile, shell: str = "sh") -> str:
    """The text for a shell: sh, bash, zsh, fish, csh, or systemd for an EnvironmentFile."""
    if shell in ("sh", "bash", "zsh"):
        return HEAD + "".join(_posix(profile))
    writer = {"fish": _fish, "csh": _csh, "systemd": _systemd}[shell]
    return HEAD + "".join(writer(profile))


def _posix(profile: Profile) -> Iterator[str]:
    settings = profile.settings
    if settings is not None and settings.script is not None:
        yield f"# {settings.install.title}: CANN finds its libraries, operators and compiler by what this sets.\n"
        yield "# Where a CANN is in force already, it stays.\n"
        yield f"{GUARD}\n"
        yield f"    . {shlex.quote(settings.script)}\n"
        if profile.nnal is not None and profile.nnal.set_env:
            yield "    # NNAL (ATB), for the C++ ABI of this torch; without --cxx_abi it starts torch at every login.\n"
            script = shlex.quote(profile.nnal.set_env)
            home = f"{profile.nnal.root}/atb/cxx_abi_{profile.abi}"
            yield f'    if [ -n "${{BASH_VERSION:-}}" ]; then\n        . {script} --cxx_abi={profile.abi}\n'
            yield "    else  # its script finds itself in bash only; zsh and sh get what it says of the libraries\n"
            yield f"        export ATB_HOME_PATH={shlex.quote(home)}\n"
            yield '        export LD_LIBRARY_PATH="$ATB_HOME_PATH/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n    fi\n'
        yield "fi\n"
    written = [*_again(profile), *_appended_lines(profile)]
    yield from (f"{text}\n" for text in profile.earlier if f"{text}\n" not in written)
    yield from written
    for name in profile.unsets:
        yield f"# {name} is not wanted: its default holds.\nunset {name}\n"
    for name, value in profile.sets.items():
        yield f"# {name} in its corrected form.\nexport {name}={shlex.quote(value)}\n"


def _values(profile: Profile) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Plain variables and the entries put before path lists, by the static reading of set_env.sh."""
    single: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    if profile.settings is not None:
        single = {name: entry.text for name, entry in profile.settings.single.items()}
        lists = {
            name: [entry.text for entry in entries if entry.there] for name, entries in profile.settings.lists.items()
        }
        if profile.nnal is not None:
            home = f"{profile.nnal.root}/atb/cxx_abi_{profile.abi}"
            single["ATB_HOME_PATH"] = home
            lists["LD_LIBRARY_PATH"] = [f"{home}/lib", *lists.get("LD_LIBRARY_PATH", ())]
    for name, folders in profile.appended.items():
        lists[name] = [*lists.get(name, ()), *folders.split(":")]
    return single, {name: entries for name, entries in lists.items() if entries}


def _fish(profile: Profile) -> Iterator[str]:
    def quote(value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    single, lists = _values(profile)
    guarded = single and not profile.repaired
    yield 'if not test -d "$ASCEND_HOME_PATH"\n' if guarded else ""
    yield from (f"    set -gx {name} {quote(value)}\n" for name, value in single.items())
    for name, entries in lists.items():
        if name == "PATH":
            yield f"    set -gx PATH {' '.join(map(quote, entries))} $PATH\n"
        else:
            yield f"    set -gx {name} (string join : {' '.join(map(quote, entries))} ${name})\n"
    yield "end\n" if guarded else ""
    yield from (f"set -e {name}\n" for name in profile.unsets)
    yield from (f"set -gx {name} {quote(value)}\n" for name, value in profile.sets.items())


def _csh(profile: Profile) -> Iterator[str]:
    def quote(value: str) -> str:
        return "'" + value.replace("'", "'\\''").replace("!", "\\!") + "'"

    single, lists = _values(profile)
    guarded = single and not profile.repaired
    yield "if (! $?ASCEND_HOME_PATH) then\n" if guarded else ""
    yield from (f"    setenv {name} {quote(value)}\n" for name, value in single.items())
    for name, entries in lists.items():
        joined = ":".join(entries)
        yield f'    if ($?{name}) then\n        setenv {name} {quote(joined + ":")}"${{{name}}}"\n'
        yield f"    else\n        setenv {name} {quote(joined)}\n    endif\n"
    yield "endif\n" if guarded else ""
    yield from (f"unsetenv {name}\n" for name in profile.unsets)
    yield from (f"setenv {name} {quote(value)}\n" for name, value in profile.sets.items())


def _systemd(profile: Profile) -> Iterator[str]:
    def quote(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    single, lists = _values(profile)
    yield from (f"{name}={quote(value)}\n" for name, value in single.items())
    for name, entries in lists.items():
        yield f"{name}={quote(':'.join([*entries, *([USUAL_PATH] if name == 'PATH' else [])]))}\n"
    yield from (f"# {name} is not wanted; a unit unsets it with UnsetEnvironment={name}\n" for name in profile.unsets)
    yield from (f"{name}={quote(value)}\n" for name, value in profile.sets.items())
