"""Stand-ins for CANN's installers: shell scripts with a makeself header that write, record, link and remove as the
vendor's packages do. `fault` is `halfway` (it fails in the middle) or `silent` (it ends with 0 and records nothing);
`says` is printed then."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.packages.build import SCRIPT, tar_gz

_OPTIONS = """\
prefix=/usr/local/Ascend quiet= install=
echo "$0" >"@LOG@"
for word in "$@"; do
  case $word in
    --quiet) quiet=1 ;;
    --install) install=1 ;;
    --install-for-all | --type=toolkit) ;;
    --install-path=*) prefix=${word#*=} ;;
    *) echo "ERR_NO:0x0004;ERR_DES:unknown option $word" >&2; exit 1 ;;
  esac
done
[ "$quiet$install" = 11 ] || exit 1
root=$prefix/cann-@VERSION@
arch=$root/@ARCH@-linux
record() {
  [ "@FAULT@" = silent ] && { cat "@SAYS@"; exit 0; }
  printf 'package_name=%s\\nversion=@VERSION@\\ninnerversion=V100R001C25\\narch=@ARCH@\\n' "$1" >"$2"
  echo "$1 install success"
}
"""
_TOOLKIT = """\
mkdir -p "$arch/script" "$arch/lib64" "$prefix/ascend-toolkit"
echo runtime >"$arch/lib64/libruntime.so"
[ "@FAULT@" = halfway ] && { cat "@SAYS@"; exit 1; }
cat >"$arch/script/uninstall.sh" <<END
rm -f "$arch/ascend_toolkit_install.info" "$arch/lib64/libruntime.so" "$root/set_env.sh"
for link in "$prefix/cann" "$prefix/ascend-toolkit/latest"; do
  case \\$(readlink "\\$link") in *cann-@VERSION@) rm -f "\\$link" ;; esac
done
rm -f "$arch/script/uninstall.sh"
rmdir "$arch/script" "$arch/lib64" "$arch" "$root" 2>/dev/null || true
END
echo "export ASCEND_HOME_PATH=$root" >"$root/set_env.sh"
rm -f "$prefix/cann" "$prefix/ascend-toolkit/latest"
ln -s "cann-@VERSION@" "$prefix/cann"
ln -s "../cann-@VERSION@" "$prefix/ascend-toolkit/latest"
cp "$root/set_env.sh" "$prefix/ascend-toolkit/set_env.sh"
record Ascend-cann-toolkit "$arch/ascend_toolkit_install.info"
"""
_OPS = """\
[ -e "$arch/ascend_toolkit_install.info" ] || exit 1
mkdir -p "$root/opp"
echo kernel >"$root/opp/add.o"
[ "@FAULT@" = halfway ] && { cat "@SAYS@"; exit 1; }
cat >"$arch/script/ops_uninstall.sh" <<END
rm -f "$arch/ascend_ops_install.info" "$root/opp/add.o" "$arch/script/ops_uninstall.sh"
rmdir "$root/opp"
END
record Ascend-cann-910b-ops "$arch/ascend_ops_install.info"
"""
_NNAL = """\
[ "$ASCEND_HOME_PATH" = "$root" ] || { echo "source set_env.sh first" >&2; exit 1; }
atb=$prefix/nnal/atb/@VERSION@
mkdir -p "$atb"
echo atb >"$atb/libatb.so"
[ "@FAULT@" = halfway ] && { cat "@SAYS@"; exit 1; }
cat >"$prefix/nnal/nnal_uninstall.sh" <<END
rm -f "$atb/version.info" "$atb/libatb.so" "$prefix/nnal/atb/latest" "$prefix/nnal/atb/set_env.sh"
rm -f "$prefix/nnal/nnal_uninstall.sh"
rmdir "$atb"
END
rm -f "$prefix/nnal/atb/latest"
ln -s "@VERSION@" "$prefix/nnal/atb/latest"
echo "export ATB_HOME_PATH=$atb" >"$prefix/nnal/atb/set_env.sh"
[ "@FAULT@" = silent ] && { cat "@SAYS@"; exit 0; }
echo "Ascend-cann-atb version : @VERSION@" >"$atb/version.info"
"""
_NAMES = {
    "toolkit": ("Ascend-cann-toolkit", _TOOLKIT),
    "ops": ("Ascend-cann-910b-ops", _OPS),
    "nnal": ("Ascend-cann-nnal", _NNAL),
}


def installer(folder: Path, part: str, version: str, arch: str, *, fault: str = "", says: str = "") -> Path:
    """A package of one part; when it runs it writes its own path into a file LOG beside the folder."""
    label, body = _NAMES[part]
    plain = gzip.decompress(
        tar_gz({"./ascend_toolkit_install.info": f"package_name={label}\nversion={version}\narch={arch}\n"})
    )
    payload = gzip.compress(plain, mtime=0)  # the same bytes whenever it is made
    head, _, _ = SCRIPT.partition('touch "$0')
    body = f"{_OPTIONS}{body}exit 0\n".replace("@LOG@", f"{folder}.ran")
    Path(f"{folder}.says").write_text(f"{says}\n", encoding="utf-8")
    for mark, text in (("VERSION", version), ("ARCH", arch), ("FAULT", fault), ("SAYS", f"{folder}.says")):
        body = body.replace(f"@{mark}@", text)
    script = head.format(label=label, size=len(payload), lines="000") + body
    script = script.replace('skip="000"', f'skip="{script.count(chr(10)):03}"')
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{label}_{version}_linux-{arch}.run"
    path.write_bytes(script.encode() + payload)
    return path
