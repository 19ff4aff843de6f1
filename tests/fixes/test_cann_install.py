"""cann.install with stand-ins for the vendor's installers: beside another version, proved by records, undone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import plugins
from npudoctor.cli import fixing
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Event, Outcome
from npudoctor.host.live.local import LocalHost
from npudoctor.packages.folder import read_folders
from npudoctor.records import replace
from npudoctor.sdk import InstallPackage, Options, StepFailed
from tests.installing.known_failures import examples
from tests.packages.installers import installer
from tests.plain_user import ALICE, as_root, give

ARCH = os.uname().machine
CATALOG = plugins.load(folder="")
pytestmark = pytest.mark.skipif(ARCH not in ("x86_64", "aarch64"), reason="CANN has packages for two architectures")


class Site:
    """A folder of packages, a prefix, and the state of npudoctor, below one folder whose name has a blank."""

    def __init__(self, folder: Path) -> None:
        self.base = folder / "a site"
        self.packages = self.base / "repo"
        self.prefix = folder / "Ascend"
        self.state = folder / "state"
        self.base.mkdir()

    def put(self, version: str, *parts: str, fault: str = "", says: str = "") -> None:
        for part in parts or ("toolkit", "ops", "nnal"):
            installer(self.packages, part, version, ARCH, fault=fault, says=says)

    @property
    def options(self) -> Options:
        return Options(python="/nowhere", packages=read_folders(LocalHost(), [str(self.packages)]))

    def plan(self, **params: Any) -> FixPlan:
        request = Request("cann.install", {"prefix": str(self.prefix), **params})
        return plan.make(CATALOG, LocalHost(), request, self.options)

    def apply(self, **params: Any) -> Ended:
        made = self.plan(**params)
        assert (made.refused, made.obstacle) == (None, None)
        return last(runner.apply(CATALOG, LocalHost(), made, self.options, state=str(self.state)))

    def undo(self) -> Ended:
        return last(runner.undo(LocalHost(), state=str(self.state)))

    def tree(self) -> dict[str, str]:
        found = {}
        for path in sorted(self.prefix.rglob("*")):
            text = (
                os.readlink(path) if path.is_symlink() else path.read_text(encoding="utf-8") if path.is_file() else ""
            )
            found[str(path.relative_to(self.prefix))] = text
        return found


def last(events: Iterator[Event]) -> Ended:
    *_, ended = events
    assert isinstance(ended, Ended)
    return ended


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_first_installation_is_proved_and_undone(site: Site) -> None:
    site.put("8.5.0")
    made = site.plan()
    assert [type(one.step).__name__ for one in made.steps].count("InstallPackage") == 3
    assert all(one.step.sha256 in made.preview for one in made.steps if isinstance(one.step, InstallPackage))
    ended = site.apply()
    assert ended.outcome is Outcome.APPLIED, ended
    there = site.tree()
    assert there["cann"] == "cann-8.5.0"
    assert "version=8.5.0" in there[f"cann-8.5.0/{ARCH}-linux/ascend_ops_install.info"]
    assert "nnal/atb/8.5.0/libatb.so" in there
    assert site.plan().empty
    assert site.undo().outcome is Outcome.UNDONE
    assert site.tree() == {}


def test_beside_another_version_the_link_stays_and_the_old_files_too(site: Site) -> None:
    site.put("8.5.0", "toolkit")
    assert site.apply().outcome is Outcome.APPLIED
    before = site.tree()
    site.put("9.0.0", "toolkit", "ops")
    assert "8.5.0" in str(site.plan().refused)
    ended = site.apply(cann="9.0.0")
    assert ended.outcome is Outcome.APPLIED, ended
    there = site.tree()
    assert {name: text for name, text in there.items() if not name.startswith("cann-9.0.0")} == before
    assert there["cann-9.0.0/opp/add.o"] == "kernel\n"
    note = site.prefix / "cann-9.0.0" / "note-of-a-person"
    note.write_text("mine\n", encoding="utf-8")
    assert site.undo().outcome is Outcome.UNDONE
    assert site.tree() == {**before, "cann-9.0.0": "", "cann-9.0.0/note-of-a-person": "mine\n"}


def test_with_default_the_link_leads_to_it_until_it_is_undone(site: Site) -> None:
    site.put("8.5.0", "toolkit")
    site.apply()
    before = site.tree()
    site.put("9.0.0", "toolkit")
    assert site.apply(cann="9.0.0", default=True).outcome is Outcome.APPLIED
    assert site.tree()["cann"] == "cann-9.0.0"
    assert site.undo().outcome is Outcome.UNDONE
    assert site.tree() == before


@pytest.mark.parametrize("fault", ["halfway", "silent"])
@pytest.mark.parametrize("text", examples("cann"))
def test_the_cause_of_each_known_failure_is_named(
    site: Site, capsys: pytest.CaptureFixture[str], text: str, fault: str
) -> None:
    site.put("8.5.0", "toolkit")
    site.apply()
    before = site.tree()
    site.put("9.0.0", "toolkit", fault=fault, says=text)
    ended = site.apply(cann="9.0.0")
    assert (ended.outcome, text in ended.output) == (Outcome.ROLLED_BACK, True)
    assert site.tree() == before
    fixing.tell_end(ended, ["fix", "cann.install"])
    assert "  cause: " in capsys.readouterr().err


@pytest.mark.parametrize("fault", ["halfway", "silent"])
@pytest.mark.parametrize("part", ["toolkit", "ops", "nnal"])
def test_what_is_not_proved_is_undone(site: Site, part: str, fault: str) -> None:
    site.put("8.5.0", "toolkit")
    site.apply()
    before = site.tree()
    site.put("9.0.0")
    site.put("9.0.0", part, fault=fault)
    ended = site.apply(cann="9.0.0")
    assert ended.outcome is Outcome.ROLLED_BACK, ended
    assert site.tree() == before


def test_a_package_runs_from_a_private_copy_that_is_removed(site: Site) -> None:
    site.put("8.5.0", "toolkit")
    assert site.apply().outcome is Outcome.APPLIED
    ran = Path(Path(f"{site.packages}.ran").read_text(encoding="utf-8").strip())
    assert ran.parent.parent == site.state / "runs"
    assert ran.parent.stat().st_mode & 0o777 == 0o700
    assert not ran.exists()


def test_a_package_that_changed_since_the_preview_is_not_run(site: Site) -> None:
    site.put("8.5.0", "toolkit")
    step = next(one.step for one in site.plan().steps if isinstance(one.step, InstallPackage))
    copy = site.base / "copy.run"
    with open(step.package, "ab") as file:
        file.write(b"x")
    changed = replace(step, private_copy=str(copy))
    with pytest.raises(StepFailed, match="has changed"):
        changed.apply(LocalHost())
    assert not copy.exists()
    assert not Path(f"{site.packages}.ran").exists()


def test_operators_alone_need_their_toolkit(site: Site) -> None:
    site.put("8.5.0", "ops")
    refused = site.plan().refused
    assert refused is not None
    assert f"Ascend-cann-toolkit_8.5.0_linux-{ARCH}.run" in refused.reason
    site.put("8.5.0", "toolkit")
    assert site.apply().outcome is Outcome.APPLIED
    before = site.tree()
    site.put("8.5.0", "nnal")
    assert site.apply().outcome is Outcome.APPLIED
    assert site.undo().outcome is Outcome.UNDONE
    assert site.tree() == before


def test_what_lies_there_without_a_record_is_left_alone(site: Site) -> None:
    site.put("8.5.0", "toolkit")
    (site.prefix / "cann-8.5.0").mkdir(parents=True)
    refused = site.plan().refused
    assert refused is not None
    assert "cann-8.5.0" in refused.reason


@pytest.mark.parametrize(("params", "said"), [({"cann": "7.0.0"}, "8.5.0"), ({"prefix": "/opt/$HOME"}, "path")])
def test_what_is_not_there_or_no_path_is_refused(site: Site, params: dict[str, str], said: str) -> None:
    site.put("8.5.0", "toolkit")
    refused = site.plan(**params).refused
    assert refused is not None
    assert said in refused.reason
    assert not Path(f"{site.packages}.ran").exists()


def step_of(made: FixPlan, part: str) -> InstallPackage:
    return next(one.step for one in made.steps if isinstance(one.step, InstallPackage) and part in one.step.package)


@as_root
@pytest.mark.parametrize("of_folder", [False, True])
def test_root_runs_no_package_that_a_user_can_change(site: Site, of_folder: bool) -> None:
    site.put("8.5.0", "toolkit")
    step = replace(step_of(site.plan(), "toolkit"), private_copy=str(site.base / "copy.run"))
    owned = str(site.packages) if of_folder else step.package
    give(Path(owned), ALICE)
    refused = site.plan().refused
    assert refused is not None
    assert f"{owned} belongs to another user" in refused.reason
    with pytest.raises(StepFailed, match="belongs to another user"):
        step.apply(LocalHost())
    assert not Path(step.private_copy).exists()
    assert not Path(f"{site.packages}.ran").exists()


@as_root
def test_root_sources_no_script_that_a_user_can_change(site: Site) -> None:
    site.put("8.5.0", "toolkit")
    assert site.apply().outcome is Outcome.APPLIED
    site.put("8.5.0", "nnal")
    made = site.plan()
    step = replace(step_of(made, "nnal"), private_copy=str(site.base / "copy.run"))
    assert f"$ . {step.script} && bash {step.package.join(2 * [chr(39)])}" in made.preview
    give(Path(step.script), ALICE)
    obstacle = site.plan().obstacle
    assert obstacle is not None
    assert f"root would source {step.script}" in obstacle.reason
    Path(f"{site.packages}.ran").unlink()
    with pytest.raises(StepFailed, match="root would source"):
        step.apply(LocalHost())
    assert not Path(f"{site.packages}.ran").exists()


def test_a_bad_signature_refuses_and_a_wanted_one_has_to_be_there(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    site = Site(tmp_path)
    site.put("8.5.0", "toolkit")
    refused = site.plan(signed_by="/etc/vendor.pem").refused
    assert refused is not None and "has no signature beside it" in refused.reason
    package = next(site.packages.glob("*.run"))
    (site.packages / f"{package.name}.cms").write_bytes(b"garbage")
    refused = site.plan().refused
    assert refused is not None and "is no good signature of" in refused.reason
