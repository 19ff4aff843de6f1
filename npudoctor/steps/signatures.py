"""Signatures beside a package. A bad one is refused; that there is none, and what was not verified, is said."""

from __future__ import annotations

import posixpath

from npudoctor.host import Host, Refused
from npudoctor.steps import messages
from npudoctor.steps.installers import not_roots

LIMIT_S = 600.0
_CMS = ("cms", "p7s")
SUFFIXES = (*_CMS, "asc", "sig")
"""Of files beside a package that are signatures of it."""
_NAMED = ("-partial_chain", "-no-CApath", "-no-CAstore")
"""A certificate of the file suffices, also that of the signer itself, and without the last two openssl accepts what a
certificate of the system has signed, too."""
_WITH_LIST = """authority=$1 form=$2 list=$3
shift 3
{ cat "$authority" && openssl crl -inform "$form" -in "$list"; } | openssl cms "$@" -crl_check -CAfile /dev/stdin"""
"""The certificates with the revocation list of the package, which has to be signed by one of them."""


def verify(host: Host, path: str, authority: str | None) -> str:
    """What is known of the signature of a package, as a clause; raises Refused for a bad one.

    `authority` is the file of certificates (PEM) or keys (OpenPGP) of those who may sign, named by the person. Without
    it a CMS signature is compared with the package all the same: then who signed is not known.
    """
    signatures = [suffix for suffix in SUFFIXES if host.exists(f"{path}.{suffix}")]
    if not signatures:
        if authority is not None:
            raise Refused(messages.SIGNATURE_WANTED.text(path=path))
        return messages.NO_SIGNATURE.text()
    if authority is not None:
        authority = posixpath.abspath(authority)
    lists = [f"{path}.crl"] if host.exists(f"{path}.crl") else []
    for one in (path, *(f"{path}.{suffix}" for suffix in signatures), *lists, *([authority] if authority else [])):
        if host.user.uid == 0 and (problem := not_roots(host, one)):
            raise Refused(problem)
    return ", ".join(_one(host, path, f"{path}.{suffix}", suffix, authority) for suffix in signatures)


def _one(host: Host, path: str, signature: str, suffix: str, authority: str | None) -> str:
    tool = "openssl" if suffix in _CMS else "gpgv"
    if host.which(tool) is None:
        return _not_verified(signature, messages.TOOL_MISSING.text(tool=tool), authority)
    if suffix not in _CMS and authority is None:
        return _not_verified(signature, messages.NO_KEYRING.text(), authority)
    listed = suffix in _CMS and authority is not None and host.exists(f"{path}.crl")
    if suffix in _CMS:
        trusted = ["-noverify"] if authority is None else [*_NAMED, "-no_check_time"]
        words = ["-verify", *trusted, "-inform", _form(host, signature), "-in", signature, "-content", path, "-binary"]
        words += ["-purpose", "any", "-out", "/dev/null"]
        argv = ["env", "-i", "openssl", "cms", *words, *(["-CAfile", authority] if authority else [])]
        if listed:
            with_list = (str(authority), _form(host, f"{path}.crl"), f"{path}.crl")
            argv = ["env", "-i", "PATH=/usr/bin:/bin", "sh", "-c", _WITH_LIST, "openssl", *with_list, *words]
    else:
        argv = ["env", "-i", "gpgv", "--keyring", str(authority), signature, path]
    done = host.run(argv, timeout=LIMIT_S)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        problem = lines[-1].rpartition("Verify error:")[2].strip() if lines else messages.TOOL_FAILED.text(tool=tool)
        raise Refused(messages.BAD_SIGNATURE.text(signature=signature, path=path, problem=problem[:160]))
    if authority is None:
        return messages.SIGNER_UNKNOWN.text(signature=signature)
    revoked = messages.NOT_REVOKED.text(path=f"{path}.crl") if listed else messages.REVOCATION_UNKNOWN.text()
    return messages.SIGNED_BY.text(signature=signature, authority=authority, revoked=revoked)


def _form(host: Host, path: str) -> str:
    return "PEM" if host.read_part(path, 0, 11).startswith(b"-----BEGIN ") else "DER"


def _not_verified(signature: str, why: str, authority: str | None) -> str:
    if authority is not None:
        raise Refused(messages.CANNOT_VERIFY.text(signature=signature, why=why))
    return messages.NOT_VERIFIED.text(signature=signature, why=why)
