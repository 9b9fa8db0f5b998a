#!/bin/sh
# Run the tests on another version of Python, in a system of its own that debootstrap makes.
#
#   scripts/run-on-python.sh 3.13 [pytest arguments]     Debian trixie
#   scripts/run-on-python.sh 3.14 [pytest arguments]     Debian sid
#
# Needs root and debootstrap. The system is kept in $CHROOTS (default: /var/tmp/webdataset-chroots) and used again.
# $MIRROR names a Debian mirror, $PIP_INDEX_URL an index of Python packages; what pip's configuration of this machine
# says is used in the chroot as well.
set -eu

version=${1:?usage: run-on-python.sh 3.13|3.14 [pytest arguments]}
shift
case $version in
    3.13) suite=trixie ;;
    3.14) suite=sid ;;
    *) echo "no Debian suite is known for Python $version: expected 3.13 or 3.14" >&2; exit 2 ;;
esac
mirror=${MIRROR:-http://deb.debian.org/debian}
root=${CHROOTS:-/var/tmp/webdataset-chroots}/python-$version
source=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$root/ready" ]; then
    mkdir -p "$(dirname "$root")"
    packages="python$version,python$version-venv,python$version-dev,ca-certificates,gcc,libc6-dev,curl,bash"
    debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror"
    touch "$root/ready"
fi

# A copy, so that the tests of the chroot write nothing into the working tree.
rm -rf "$root/src"
mkdir -p "$root/src"
(cd "$source" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf -) | tar -xf - -C "$root/src"

for directory in proc dev dev/shm; do
    mountpoint -q "$root/$directory" || mount --rbind "/$directory" "$root/$directory"
done
trap 'umount -R "$root/proc" "$root/dev" 2>/dev/null || true' EXIT INT TERM
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
[ -e /etc/pip.conf ] && cp /etc/pip.conf "$root/etc/pip.conf"

chroot "$root" /bin/sh -eu -c '
    cd /src
    [ -d /venv ] || "python$0" -m venv /venv
    # Packages without wheels for this version are left out: the tests that need them are skipped and say so.
    grep -v -e "^-" -e "^#" requirements/core.txt requirements/test.txt -h | while read -r requirement; do
        /venv/bin/pip install -q --only-binary :all: "$requirement" || echo "not installed: $requirement" >&2
    done
    /venv/bin/pip install -q --only-binary :all: torch --index-url https://download.pytorch.org/whl/cpu \
        || /venv/bin/pip install -q --only-binary :all: torch || echo "not installed: torch" >&2
    /venv/bin/pip install -q --no-deps .
    exec /venv/bin/python -m pytest -q -p no:cacheprovider "$@"
' "$version" "$@"
