"""Nothing of a user runs as root: finding 2 of the review, with real processes.

Alice plants a Python that writes down as whom it runs, and leads root to it in every way that there is.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import npudoctor
from tests.plain_user import ALICE, NAMES, accounts_missing, as_root, give, with_accounts

pytestmark = [as_root, pytest.mark.skipif(bool(accounts_missing()), reason=str(accounts_missing()))]

NPUDOCTOR = str(Path(sys.executable).with_name("npudoctor"))
NAME = NAMES[ALICE]
PYTHON = "/usr/bin/python3"
"""One that plain users can run, unlike that of these tests."""

if not os.path.exists(PYTHON):
    pytest.skip(f"{PYTHON} is not installed", allow_module_level=True)


class Scene:
    """A folder that plain users can pass through, alice's home in it, and the file that says who ran her Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen = folder / "seen"
        self.seen.write_text("", encoding="utf-8")
        self.seen.chmod(0o666)
        with_accounts(["true"], folder)
        self.home = folder / "home" / NAME

    def python(self, prefix: Path, owner: int = ALICE) -> Path:
        """An environment whose Python notes as whom it runs."""
        (prefix / "bin").mkdir(parents=True)
        script = f'#!/bin/sh\nid -u >>"{self.seen}"\nexec {PYTHON} "$@"\n'
        for name in ("python", "python3"):
            (prefix / "bin" / name).write_text(script, encoding="utf-8")
            (prefix / "bin" / name).chmod(0o755)
        if owner:
            give(prefix, owner)
        return prefix / "bin" / "python3"

    def profile(self, text: str) -> None:
        """What alice's login shell reads."""
        (self.home / ".profile").write_text(text + "\n", encoding="utf-8")
        give(self.home, ALICE)

    def module(self, folder: Path, name: str = "sitecustomize.py") -> Path:
        """A module that notes as whom it is imported."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            f"import os; open({str(self.seen)!r}, 'a').write('%d\\n' % os.getuid())\n", encoding="utf-8"
        )
        return folder

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """npudoctor as root, where alice has an account."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("SUDO_", "NPUDOCTOR_"))}
        environ |= {"XDG_CONFIG_HOME": "/nonexistent", **variables}
        argv = with_accounts([NPUDOCTOR, *words], self.folder)
        return subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, env=environ, timeout=300)

    @property
    def users(self) -> set[str]:
        """As whom what was planted has run."""
        return set(self.seen.read_text(encoding="utf-8").split())


Lead = Callable[[Scene], tuple[list[str], dict[str, str]]]
"""Plants something and returns the words and the variables that lead root to it."""


@pytest.fixture
def scene(open_folder: Path) -> Scene:
    return Scene(open_folder)


CHECK = ("check", "--profile", "quick", "python", "--json", "--role", "full")
PLANTED = "export CONDA_PREFIX=$HOME/e PATH=$HOME/e/bin:$PATH"


def _lead_by_sudo(scene: Scene) -> tuple[list[str], dict[str, str]]:
    scene.python(scene.home / "e")
    scene.profile(PLANTED)
    return [], {"SUDO_USER": NAME}


def _lead_by_login(scene: Scene) -> tuple[list[str], dict[str, str]]:
    scene.python(scene.home / "e")
    scene.profile(PLANTED)
    return ["--environment", f"login:{NAME}"], {}


def _lead_by_pythonpath(scene: Scene) -> tuple[list[str], dict[str, str]]:
    scene.module(scene.home / "m")
    scene.profile("export PYTHONPATH=$HOME/m")
    return ["--python", PYTHON], {"SUDO_USER": NAME}


def _lead_by_user_site(scene: Scene) -> tuple[list[str], dict[str, str]]:
    version = subprocess.run([PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True)
    folder = scene.home / f".local/lib/python{version.stdout.decode().strip()}/site-packages"
    scene.module(folder, "usercustomize.py")
    give(scene.home, ALICE)
    return ["--python", PYTHON, "--environment", "process"], {"HOME": str(scene.home)}


def _lead_by_variable_of_root(scene: Scene) -> tuple[list[str], dict[str, str]]:
    give(scene.module(scene.home / "m"), ALICE)
    (scene.folder / "root.env").write_text(f"PYTHONPATH=/usr/share:{scene.home}/m\nHOME=/root\n", encoding="utf-8")
    return ["--python", PYTHON, "--environment", f"file:{scene.folder}/root.env"], {}


def _lead_by_file(scene: Scene) -> tuple[list[str], dict[str, str]]:
    scene.python(scene.home / "e")
    (scene.home / "job.env").write_text(
        f"CONDA_PREFIX={scene.home}/e\nPATH={scene.home}/e/bin:/usr/bin:/bin\n", encoding="utf-8"
    )
    give(scene.home, ALICE)
    return ["--environment", f"file:{scene.home}/job.env"], {}


def _lead_by_file_of_root_in_her_folder(scene: Scene) -> tuple[list[str], dict[str, str]]:
    words, variables = _lead_by_file(scene)
    os.chown(scene.home / "job.env", 0, 0)
    return words, variables


def _lead_by_python(scene: Scene) -> tuple[list[str], dict[str, str]]:
    return ["--python", str(scene.python(scene.home / "e"))], {}


def _lead_by_folder(scene: Scene) -> tuple[list[str], dict[str, str]]:
    scene.python(scene.home / "e")
    return ["--python", str(scene.home / "e")], {}


def _lead_by_variable(scene: Scene) -> tuple[list[str], dict[str, str]]:
    return [], {"NPUDOCTOR_PYTHON": str(scene.python(scene.home / "e"))}


def _lead_by_link(scene: Scene) -> tuple[list[str], dict[str, str]]:
    scene.python(scene.home / "e")
    (scene.folder / "opt").mkdir()
    (scene.folder / "opt" / "python3").symlink_to(scene.home / "e" / "bin" / "python3")
    return ["--python", str(scene.folder / "opt" / "python3")], {}


def _lead_by_site_packages(scene: Scene) -> tuple[list[str], dict[str, str]]:
    prefix = _venv(scene)
    give(scene.module(next((prefix / "lib").glob("python3*")) / "site-packages" / "torch", "__init__.py"), ALICE)
    (prefix / "lib" / "note.pth").touch()
    site = next((prefix / "lib").glob("python3*")) / "site-packages"
    (site / "load.pth").write_text("import torch\n", encoding="utf-8")
    return ["--python", str(prefix / "bin" / "python3")], {}


def _lead_by_pth(scene: Scene) -> tuple[list[str], dict[str, str]]:
    prefix = _venv(scene)
    give(scene.module(scene.home / "source", "planted.py"), ALICE)
    site = next((prefix / "lib").glob("python3*")) / "site-packages"
    (site / "editable.pth").write_text(f"{scene.home}/source\nimport planted\n", encoding="utf-8")
    return ["--python", str(prefix / "bin" / "python3")], {}


def _lead_by_pth_that_computes_its_path(scene: Scene) -> tuple[list[str], dict[str, str]]:
    prefix = _venv(scene)
    give(scene.module(scene.home / "source", "planted.py"), ALICE)
    scene.home.chmod(0o700)
    site = next((prefix / "lib").glob("python3*")) / "site-packages"
    code = f"import sys, os; sys.path.append(os.path.join({str(scene.home.parent)!r}, {NAME!r}, 'source'))"
    (site / "computed.pth").write_text(f"{code}\nimport planted\n", encoding="utf-8")
    return ["--python", str(prefix / "bin" / "python3")], {}


def _lead_by_pth_that_runs_a_file(scene: Scene) -> tuple[list[str], dict[str, str]]:
    prefix = _venv(scene)
    give(scene.module(scene.home / "source", "planted.py"), ALICE)
    site = next((prefix / "lib").glob("python3*")) / "site-packages"
    scene.home.chmod(0o700)
    (site / "run.pth").write_text(
        "import os; exec(open(os.environ['ASCEND_SITE'] + '/planted.py').read())\n", encoding="utf-8"
    )
    words = ["--python", str(prefix / "bin" / "python3"), "--environment", "process"]
    return words, {"ASCEND_SITE": f"{scene.home}/source"}


def _lead_by_base(scene: Scene) -> tuple[list[str], dict[str, str]]:
    base = scene.python(scene.home / "e")
    (scene.folder / "v" / "bin").mkdir(parents=True)
    (scene.folder / "v" / "pyvenv.cfg").write_text(f"home = {base.parent}\n", encoding="utf-8")
    shutil.copy(base, scene.folder / "v" / "bin" / "python3")
    return ["--python", str(scene.folder / "v" / "bin" / "python3")], {}


def _venv(scene: Scene) -> Path:
    prefix = scene.folder / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(prefix)], check=True, capture_output=True)
    return prefix


LEADS: list[Lead] = [value for name, value in list(globals().items()) if name.startswith("_lead_")]


@pytest.mark.parametrize("lead", LEADS, ids=lambda lead: lead.__name__.removeprefix("_lead_"))
def test_what_a_user_planted_runs_as_that_user(scene: Scene, lead: Lead) -> None:
    words, variables = lead(scene)
    done = scene.run(*CHECK, *words, **variables)
    assert "0" not in scene.users
    assert scene.users == {str(ALICE)}, done.stdout[-2000:] + done.stderr
    assert json.loads(done.stdout)["host"]["python_user"] == NAME


COMMANDS = {
    "check": ["check", "--profile", "standard", "python", "system.disk", "--role", "full"],
    "record": ["record", "{folder}/node.tar.gz", "--profile", "quick", "--role", "full"],
    "facts": ["facts", "--role", "full"],
    "fix": ["fix", "--dry-run", "env.profile"],
    "fix packages": ["fix", "--dry-run", "python.install-packages", "--set", "packages=six"],
    "smoke": ["smoke", "--device", "cpu", "--ranks", "1", "--timeout", "60"],
    "env": ["env"],
    "setup": ["setup", "--dry-run"],
}
"""Commands that look at a live node; `{folder}` is one that they may write in."""

RUNS_IT = ("check", "record", "facts", "fix packages", "smoke")
"""Those that run the Python that they examine."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("lead", [_lead_by_sudo, _lead_by_python], ids=["sudo", "python"])
def test_whatever_command_root_gives_nothing_of_the_user_runs_as_root(scene: Scene, command: str, lead: Lead) -> None:
    words, variables = lead(scene)
    done = scene.run(*(word.format(folder=scene.folder) for word in COMMANDS[command]), *words, **variables)
    assert scene.users <= {str(ALICE)}
    assert scene.users or command not in RUNS_IT, done.stdout[-2000:] + done.stderr


def test_the_environment_of_a_running_process_runs_as_its_user(scene: Scene) -> None:
    scene.python(scene.home / "e")
    give(scene.home, ALICE)
    environ = {"CONDA_PREFIX": f"{scene.home}/e", "PATH": f"{scene.home}/e/bin:/usr/bin:/bin"}
    argv = ["/bin/sh", "-c", "echo ready; read _"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, user=ALICE, group=ALICE, extra_groups=[]
    ) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        scene.run(*CHECK, "--environment", f"pid:{process.pid}")
        process.communicate(b"\n")
    assert scene.users == {str(ALICE)}


def test_the_user_of_the_daemon_is_who_runs_his_python(scene: Scene) -> None:
    scene.python(scene.home / "e")
    scene.profile(PLANTED)
    config = scene.folder / "config.toml"
    config.write_text(f'user = "{NAME}"\nrole = "full"\n[daemon]\nquick_s = 1\nstandard_s = 60\n', encoding="utf-8")
    argv = [NPUDOCTOR, "daemon", "--config", str(config), "--state-dir", str(scene.folder / "state")]
    argv += ["--socket", str(scene.folder / "socket"), "--environment", "login"]  # in a container it is not chosen
    (scene.folder / "state").mkdir()
    environ = {**os.environ, "INVOCATION_ID": "1", "JOURNAL_STREAM": "1:1"}
    with subprocess.Popen(
        with_accounts(argv, scene.folder),
        env=environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        until = time.monotonic() + 120
        while not scene.users and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert scene.users == {str(ALICE)}, said


def test_packages_are_not_installed_by_root_into_a_users_environment(scene: Scene) -> None:
    prefix = _venv(scene)
    give(prefix, ALICE)
    words = ["--set", "packages=six", "--python", str(prefix / "bin" / "python3")]
    done = scene.run("fix", "python.install-packages", "--yes", *words)
    assert done.returncode == 7, done.stdout + done.stderr
    assert f"{prefix} belongs to {NAME}; run this as {NAME}: sudo -u {NAME} npudoctor fix" in done.stdout + done.stderr


def test_every_live_node_is_opened_in_one_place() -> None:
    """Whoever opens a node elsewhere would have to decide anew as whom its environment runs."""
    package = Path(npudoctor.__file__).parent
    calls = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("LocalHost", "job.resolve"))
    ]
    reads_packages = "cli/staged.py"  # it runs nothing
    assert set(calls) == {"cli/node.py", reads_packages, "host/live/local.py", "host/live/rooted.py"}
