# Installs an archive of npudoctor on one node; `npudoctor fleet install` and the Ansible role run it.
#   sh install.sh plan|install PREFIX NAME SHA256 ARCH archive|wheels KIB <archive
# PREFIX/releases/NAME is the release, PREFIX/current a link to it. Earlier releases stay. It prints one line:
#   NPUDOCTOR-INSTALL new|present|switch|installed|refused DETAIL
set -u
umask 022
export LC_ALL=C
mode=$1 prefix=$2 name=$3 sum=$4 arch=$5 kind=$6 kib=$7
say() { echo "NPUDOCTOR-INSTALL $*"; exit 0; }

[ "$arch" = any ] || [ "$(uname -m)" = "$arch" ] || say refused "the archive is for $arch, the node is $(uname -m)"
for tool in flock mktemp readlink sha256sum stat tar timeout; do
    command -v "$tool" >/dev/null 2>&1 || say refused "the node has no $tool"
done
python=
if [ "$kind" = wheels ]; then
    for one in python3.13 python3.12 python3.11 python3.10 python3; do
        fits='import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'
        if "$one" -I -c "$fits" </dev/null >/dev/null 2>&1; then python=$one; break; fi
    done
    [ -n "$python" ] || say refused "no Python 3.10 to 3.13 with venv; use the archive with its own Python"
fi

# Another user must not be able to change any folder of the path.
case $prefix in /*) ;; *) say refused "$prefix must be an absolute path" ;; esac
prefix=$(readlink -m -- "$prefix") me=$(id -u)
part=$prefix there=
while :; do
    if [ -e "$part" ]; then
        [ -d "$part" ] || say refused "$part is no folder"
        [ -n "$there" ] || there=$part
        owner=$(stat -c %u -- "$part") rights=$(stat -c %A -- "$part")
        [ "$owner" = 0 ] || [ "$owner" = "$me" ] || say refused "$part belongs to another user ($owner)"
        case $rights in
            *[tT]) ;;
            ????????w?) say refused "every user can write $part; chmod o-w $part" ;;
            ?????w????) [ "$me" != 0 ] || say refused "a group can write $part; chmod g-w $part" ;;
        esac
    fi
    [ "$part" != / ] || break
    part=$(dirname -- "$part")
done
case $(stat -c %A -- "$there") in *[tT]) [ "$there" != "$prefix" ] || say refused "every user can add files to $prefix" ;; esac
[ -w "$there" ] || say refused "user $(id -un) cannot write $there"
if [ -d "$prefix" ] && [ ! -d "$prefix/releases" ] && [ -n "$(ls -A -- "$prefix")" ]; then
    say refused "$prefix has other files; choose another --prefix"
fi
release=$prefix/releases/$name
before=$(readlink -- "$prefix/current" 2>/dev/null) before=${before##*/}
complete() { [ "$(cat "$release/.sha256" 2>/dev/null)" = "$sum" ]; }
if complete && [ "$before" = "$name" ]; then say present "$name"; fi
if ! complete; then
    free=$(df -Pk -- "$there" | awk 'NR == 2 { print $4 }')
    [ "${free:-0}" -ge "$kib" ] || say refused "$there has $((${free:-0} >> 10)) MiB free, $((kib >> 10)) MiB are required"
fi
if [ "$mode" = plan ]; then
    if complete; then say switch "$name ${before:+instead of $before}"; fi
    say new "$name ${before:+instead of $before}"
fi

mkdir -p -- "$prefix/releases" || say refused "cannot make $prefix/releases"
exec 9>"$prefix/releases/.lock" || say refused "cannot write $prefix/releases"
flock -n 9 || say refused "another installation is under way"
if ! complete; then
    archive=$(mktemp "$prefix/releases/.archive.XXXXXX") || say refused "cannot write $prefix/releases"
    trap 'rm -f -- "$archive"' EXIT
    trap 'exit 1' HUP INT TERM
    cat >"$archive" || say refused "the archive could not be stored"
    [ "$(sha256sum <"$archive" | cut -d ' ' -f 1)" = "$sum" ] || say refused "the archive arrived damaged: its SHA-256 differs"
    exec </dev/null
    give_up() { rm -rf -- "$release"; say refused "$*"; }
    last() { printf '%s\n' "$1" | tail -n 1 | cut -c 1-200; }
    rm -rf -- "$release"
    mkdir -- "$release" || say refused "cannot make $release"
    target=$release
    [ "$kind" = archive ] || { target=$release/.from && mkdir -- "$target"; }
    tar -xzf "$archive" -C "$target" --strip-components=1 --no-same-owner --no-same-permissions || give_up "cannot unpack it"
    if [ "$kind" = wheels ]; then
        said=$("$python" -I -m venv "$release" 2>&1) || give_up "venv: $(last "$said")"
        for words in "--require-hashes -r requirements.lock" "--no-deps npudoctor"; do
            # shellcheck disable=SC2086
            said=$(cd "$target" && "$release/bin/python" -I -m pip --isolated install -q --no-input --no-cache-dir \
                --disable-pip-version-check --no-index --find-links wheels $words 2>&1) || give_up "pip: $(last "$said")"
        done
        rm -rf -- "$target"
    fi
    said=$(cd / && timeout 60 "$release/bin/npudoctor" --version 2>&1) || give_up "it does not run here: $(last "$said")"
    printf '%s\n' "$sum" >"$release/.sha256"
fi
link=$prefix/.current.$$
ln -s "releases/$name" "$link" && mv -T -- "$link" "$prefix/current" || say refused "cannot write $prefix/current"
say installed "$name ${before:+instead of $before}"
