"""Signatures beside a package: a bad one is refused, and what was not verified is said."""

import shutil
import subprocess
from pathlib import Path

import pytest

from npudoctor import knowledge
from npudoctor.host import Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.steps import signatures
from tests.plain_user import ALICE, as_root, give


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package, the certificate of who signs, and another one's."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    for name in ("vendor", "other"):
        words = ("-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2")
        openssl(tmp_path, "req", "-x509", *words, "-subj", f"/CN={name}")
    path = tmp_path / "driver.run"
    path.write_bytes(b"#!/bin/bash\r\nexit 0\n")
    return path


def signed(package: Path, *, form: str = "DER", suffix: str = "cms") -> Path:
    words = ("-signer", "vendor.pem", "-inkey", "vendor.key", "-in", package.name)
    name = f"{package.name}.{suffix}"
    openssl(package.parent, "cms", "-sign", "-binary", *words, "-outform", form, "-out", name)
    return package.parent / name


@pytest.mark.parametrize(("form", "suffix"), [("DER", "cms"), ("PEM", "p7s")])
def test_a_good_signature_and_who_signed(package: Path, form: str, suffix: str) -> None:
    host, folder = LocalHost(), package.parent
    signed(package, form=form, suffix=suffix)
    assert "who signed is not verified" in signatures.verify(host, str(package), None)
    vendor = str(folder / "vendor.pem")
    assert f"is verified with {vendor}" in signatures.verify(host, str(package), vendor)
    with pytest.raises(Refused, match="is no good signature of"):
        signatures.verify(host, str(package), str(folder / "other.pem"))


def test_a_certificate_of_the_system_s_store_is_not_that_of_the_person(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = package.parent
    signed(package)
    certificates = folder / "certificates"
    certificates.mkdir()
    done = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", "vendor.pem"], cwd=folder, check=True, capture_output=True
    )
    shutil.copy(folder / "vendor.pem", certificates / f"{done.stdout.decode().strip()}.0")
    monkeypatch.setenv("SSL_CERT_DIR", str(certificates))
    with pytest.raises(Refused, match="is no good signature of"):
        signatures.verify(LocalHost(), str(package), str(folder / "other.pem"))
    monkeypatch.chdir(folder)
    assert f"is verified with {folder}/vendor.pem" in signatures.verify(LocalHost(), str(package), "vendor.pem")


@as_root
@pytest.mark.parametrize("name", ["vendor.pem", "driver.run", "driver.run.cms", "driver.run.crl"])
def test_what_another_user_can_write_is_not_believed(package: Path, name: str) -> None:
    signed(package)
    revocations(package, revoked=False)
    give(package.parent / name, ALICE)
    with pytest.raises(Refused, match=str(ALICE)):
        signatures.verify(LocalHost(), str(package), str(package.parent / "vendor.pem"))


@pytest.mark.parametrize("authority", [None, "vendor.pem"])
def test_a_bad_signature_is_refused(package: Path, authority: str | None) -> None:
    signature = signed(package)
    trusted = str(package.parent / authority) if authority else None
    with package.open("ab") as file:
        file.write(b"x")
    with pytest.raises(Refused, match="is no good signature of"):
        signatures.verify(LocalHost(), str(package), trusted)
    signature.write_bytes(b"garbage")
    with pytest.raises(Refused, match="is no good signature of"):
        signatures.verify(LocalHost(), str(package), trusted)


def test_without_a_signature_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "driver.run"
    path.touch()
    (tmp_path / "driver.run.crl").touch()
    assert signatures.verify(LocalHost(), str(path), None) == "no signature beside it"
    with pytest.raises(Refused, match="has no signature beside it"):
        signatures.verify(LocalHost(), str(path), "/etc/vendor.pem")


def test_what_cannot_be_verified_is_said_and_with_an_authority_refused(tmp_path: Path) -> None:
    path = tmp_path / "driver.run"
    path.touch()
    (tmp_path / "driver.run.asc").touch()
    assert "is not verified: " in signatures.verify(LocalHost(), str(path), None)
    with pytest.raises(Refused):
        signatures.verify(LocalHost(), str(path), str(tmp_path / "keys.gpg"))


@pytest.mark.parametrize(("suffix", "tool"), [("cms", "openssl"), ("p7s", "openssl"), ("asc", "gpgv"), ("sig", "gpgv")])
def test_a_missing_tool_is_named_and_with_an_authority_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, tool: str
) -> None:
    path = tmp_path / "driver.run"
    path.touch()
    (tmp_path / f"driver.run.{suffix}").touch()
    monkeypatch.setattr(LocalHost, "which", lambda _, name: None if name == tool else f"/usr/bin/{name}")
    said = f"{path}.{suffix} is not verified: {tool} is not installed"
    assert signatures.verify(LocalHost(), str(path), None) == said
    (tmp_path / "keys").touch()
    with pytest.raises(Refused, match=f"cannot be verified: {tool} is not installed"):
        signatures.verify(LocalHost(), str(path), str(tmp_path / "keys"))


@pytest.fixture
def issued(package: Path) -> Path:
    """The package, signed by `signer`, which `vendor` has issued; `below` is issued by `signer`, which is no CA."""
    folder = package.parent
    (folder / "end").write_text("basicConstraints=CA:FALSE\n", encoding="utf-8")
    for name, by in (("signer", "vendor"), ("below", "signer")):
        openssl(
            folder,
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            *f"-keyout {name}.key -out {name}.csr".split(),
            "-subj",
            f"/CN={name}",
        )
        words = f"-in {name}.csr -CA {by}.pem -CAkey {by}.key -set_serial 7 -out {name}.pem -days 2 -extfile end"
        openssl(folder, "x509", "-req", *words.split())
    sign(package, "signer")
    return package


def sign(package: Path, name: str, *more: str) -> None:
    words = f"-signer {name}.pem -inkey {name}.key -in {package.name} -outform DER -out {package.name}.cms"
    openssl(package.parent, "cms", "-sign", "-binary", *words.split(), *more)


def revocations(package: Path, *, revoked: bool, by: str = "vendor") -> None:
    """The revocation list beside a package."""
    folder = package.parent
    lines = f"database=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=1\ncertificate={by}.pem\n"
    (folder / "ca").write_text(f"[ca]\ndefault_ca=one\n[one]\n{lines}private_key={by}.key\n", encoding="utf-8")
    (folder / "index").write_text("R\t491231235959Z\t260101000000Z\t07\tunknown\t/CN=signer\n" if revoked else "")
    (folder / "number").write_text("01\n")
    openssl(folder, "ca", "-config", "ca", "-gencrl", "-out", "list.pem")
    openssl(folder, "crl", "-in", "list.pem", "-outform", "DER", "-out", f"{package.name}.crl")


def test_the_certificate_of_the_signer_suffices_and_signs_for_no_other(issued: Path) -> None:
    folder = issued.parent
    for name in ("vendor", "signer"):
        said = signatures.verify(LocalHost(), str(issued), str(folder / f"{name}.pem"))
        assert said.endswith(f"{name}.pem; revocation is not checked")
    sign(issued, "below", "-certfile", "signer.pem")
    for name in ("vendor", "signer"):
        with pytest.raises(Refused, match="is no good signature of"):
            signatures.verify(LocalHost(), str(issued), str(folder / f"{name}.pem"))


def test_a_revoked_signer_is_refused(issued: Path) -> None:
    vendor = str(issued.parent / "vendor.pem")
    revocations(issued, revoked=False)
    assert signatures.verify(LocalHost(), str(issued), vendor).endswith(f"not revoked by {issued}.crl")
    revocations(issued, revoked=True)
    with pytest.raises(Refused, match="certificate revoked"):
        signatures.verify(LocalHost(), str(issued), vendor)
    revocations(issued, revoked=False, by="other")
    with pytest.raises(Refused, match="unable to get certificate CRL"):
        signatures.verify(LocalHost(), str(issued), vendor)


def test_every_suffix_of_a_signature_is_verified() -> None:
    assert {*signatures.SUFFIXES, "crl"} == set(knowledge.install().signature_suffixes)
