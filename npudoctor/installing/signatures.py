"""Signatures beside a package. A bad one is refused; that there is none, and what was not verified, is said."""

from __future__ import annotations

import posixpath

from npudoctor import knowledge
from npudoctor.host import Host, Refused
from npudoctor.steps.installers import not_roots

LIMIT_S = 600.0
_CMS = ("cms", "p7s")
_NO_OTHERS = ("-no-CApath", "-no-CAstore")
"""Without these openssl accepts what a certificate of the system has signed, too."""


def verified(host: Host, path: str, authority: str | None) -> str:
    """What is known of the signature of a package, as a clause; raises Refused for a bad one.

    `authority` is the file of certificates (PEM) or keys (OpenPGP) of those who may sign, named by the person. Without
    it a CMS signature is compared with the package all the same: then who signed is not known.
    """
    beside = [suffix for suffix in knowledge.install().signature_suffixes if host.exists(f"{path}.{suffix}")]
    signatures = [suffix for suffix in beside if suffix != "crl"]
    if not signatures:
        if authority is not None:
            raise Refused(f"{path} has no signature beside it, and --signed-by asks for one")
        return "no signature beside it"
    if authority is not None:
        authority = posixpath.abspath(authority)
    for one in (path, *(f"{path}.{suffix}" for suffix in signatures), *([authority] if authority else [])):
        if host.user.uid == 0 and (problem := not_roots(host, one)):
            raise Refused(problem)
    return ", ".join(_one(host, path, f"{path}.{suffix}", suffix, authority) for suffix in signatures)


def _one(host: Host, path: str, signature: str, suffix: str, authority: str | None) -> str:
    tool = "openssl" if suffix in _CMS else "gpgv"
    if host.which(tool) is None:
        return _not_verified(signature, f"{tool} is not installed", authority)
    if suffix not in _CMS and authority is None:
        return _not_verified(signature, "--signed-by names no keyring", authority)
    if suffix in _CMS:
        form = "PEM" if host.read_part(signature, 0, 11).startswith(b"-----BEGIN ") else "DER"
        trusted = ["-noverify"] if authority is None else ["-CAfile", authority, *_NO_OTHERS, "-no_check_time"]
        words = ["-verify", *trusted, "-inform", form, "-in", signature, "-content", path, "-binary", "-purpose", "any"]
        argv = ["env", "-i", "openssl", "cms", *words, "-out", "/dev/null"]
    else:
        argv = ["env", "-i", "gpgv", "--keyring", str(authority), signature, path]
    done = host.run(argv, timeout=LIMIT_S)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise Refused(f"{signature} is no good signature of {path}: {lines[-1][:160] if lines else f'{tool} failed'}")
    if authority is None:
        return f"{signature} is a signature of it, and who signed is not verified (--signed-by FILE)"
    return f"{signature} is verified with {authority}; revocation is not checked"


def _not_verified(signature: str, why: str, authority: str | None) -> str:
    if authority is not None:
        raise Refused(f"{signature} cannot be verified: {why}")
    return f"{signature} is not verified: {why}"
