"""What all tests share: where the real captures lie, and how thorough the mutations are."""

import fcntl
import functools
import importlib.metadata
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from npudoctor import clock, plugins
from npudoctor.host.live import reader
from npudoctor.knowledge import table
from tests.fake_dcmi import build

# Whoever starts the suite in the background has it ignore these, and the processes that it starts after it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
settings.register_profile("default", patient, max_examples=60, derandomize=True)
settings.register_profile("thorough", patient, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With $NPUDOCTOR_TEST_ORDER, a number: files in another order, and the tests in each of them."""
    if number := os.environ.get("NPUDOCTOR_TEST_ORDER"):
        chance = random.Random(number)
        places = {item.path: chance.random() for item in items}
        items.sort(key=lambda item: (places[item.path], chance.random()))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real outputs and labelled nodes beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with the real outputs is not there")
    return SHARED


@pytest.fixture(scope="session")
def fake_dcmi(tmp_path_factory: pytest.TempPathFactory) -> build.Library:
    """The stub libdcmi.so; `put` gives a test one with its own answers in a folder of its own."""
    if missing := build.missing_tools():
        pytest.skip(f"the stub library cannot be compiled: there is no {', '.join(missing)}")
    return build.Library(tmp_path_factory.mktemp("fake_dcmi"))


@pytest.fixture(scope="session")
def _configurations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names in an empty folder, a new one each time; `tmp_path` for each test takes longer than most tests."""
    folder = tmp_path_factory.mktemp("configurations")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _no_site_configuration(monkeypatch: pytest.MonkeyPatch, _configurations: Iterator[Path]) -> None:
    """Whoever runs the tests may have a configuration of their own; it must not decide what they see."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(next(_configurations)))
    for name in ("NPUDOCTOR_CONFIG", "NPUDOCTOR_PYTHON", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_reader_is_kept_for_the_next_test() -> Iterator[None]:
    """The terminal interface and the daemon keep the process that asks the driver's library as long as theirs runs."""
    yield
    if reader.KEPT.wanted:
        reader.KEPT.wanted = False
        reader.let_go()


@pytest.fixture(autouse=True, scope="session")
def _distributions_are_read_once() -> Iterator[None]:
    """Nothing is installed beside this process; to read what is takes longer than the rest of a run of one check."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", functools.cache(importlib.metadata.entry_points))
        yield


@pytest.fixture(autouse=True, scope="session")
def _the_catalogue_is_loaded_once(_distributions_are_read_once: None) -> Iterator[None]:
    """Loading it takes longer than the rest of a run of one check; nothing in it changes.

    Where a test names plug-ins, or replaces what they are loaded from, it is loaded as ever.
    """
    real, parts = plugins.load, ("entry_points", "_sources", "_items", "assemble", "FOLDER")
    with pytest.MonkeyPatch.context() as patch:
        usual = [getattr(plugins, name) for name in parts]
        kept: list[plugins.Catalog] = []
        checks: list[object] = []

        def load(files: Sequence[str] = (), *, folder: str = plugins.FOLDER) -> plugins.Catalog:
            if files or folder != plugins.FOLDER or os.path.exists(folder) or table.site_problems():
                return real(files, folder=folder)
            if any(getattr(plugins, name) is not one for name, one in zip(parts, usual, strict=True)):
                return real(files, folder=folder)
            if kept and sys.modules.get("npudoctor.checks") is not checks[0]:
                return real(files, folder=folder)  # a test takes modules away
            if not kept:
                kept.append(real())
                checks.append(sys.modules.get("npudoctor.checks"))
            return kept[0]

        patch.setattr(plugins, "load", load)
        yield


NOON = 1795262400.0
"""2026-11-21 12:00 UTC, of which the pictures of the terminal interface are."""


@pytest.fixture
def noon() -> Iterator[None]:
    """The clock stands still at `NOON`, and this machine's time zone is UTC."""
    if not hasattr(time, "tzset"):
        pytest.skip("this Python, that of the archive, has no time.tzset")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "timestamp", lambda: NOON)
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """An empty folder that plain users can pass through, unlike tmp_path; it is root's (or the test user's) own."""
    folder = Path(tempfile.mkdtemp(prefix="npudoctor test "))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


TORCH = "2.13.0"
"""The torch and the torch_npu that the tests marked `torch` use."""


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """A Python with torch and torch_npu: $NPUDOCTOR_TEST_TORCH, else an environment that is made once and kept."""
    if named := os.environ.get("NPUDOCTOR_TEST_TORCH"):
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npudoctor-tests"
    folder = cache / f"torch-{TORCH}-python{sys.version_info[0]}.{sys.version_info[1]}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(os.open(cache / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _install_torch(folder)
    return folder / "bin" / "python"


def _install_torch(folder: Path) -> None:
    from tests.fake_cann import target

    shutil.rmtree(folder, ignore_errors=True)
    try:
        target.install(folder)
    except target.NotToBeHad as why:
        pytest.skip(str(why))
    (folder / "complete").touch()


@pytest.fixture(scope="session")
def cann_libraries(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub CANN libraries for the torch_npu of `torch_python`: what LD_LIBRARY_PATH is to name."""
    from tests.fake_cann import build

    if missing := build.missing_tools():
        pytest.skip(f"the stub libraries cannot be built without {', '.join(missing)}")
    where = "import sysconfig; print(sysconfig.get_path('platlib'))"
    packages = subprocess.run([str(torch_python), "-c", where], capture_output=True, encoding="utf-8", check=True)
    return build.build(Path(packages.stdout.strip()), tmp_path_factory.mktemp("cann"))


@pytest.fixture(scope="session")
def real_torch_npu(torch_python: Path) -> Path:
    """The Python of an environment with the CPU build of torch and the real torch_npu; tests leave it as it is."""
    return torch_python


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real tmpfs of two pages, where this user may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    if not shutil.which("mount"):
        pytest.skip("there is no mount here")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)
