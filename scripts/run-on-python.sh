#!/bin/sh
# Run the tests on another version of Python, in a system of its own that debootstrap makes.
#
#   scripts/run-on-python.sh 3.13 [pytest arguments]     Debian trixie
#   scripts/run-on-python.sh 3.14 [pytest arguments]     Debian forky
#
# Needs root and debootstrap. The system is kept in $CHROOT (default: /var/tmp/webdataset-python-VERSION) and used again.
# $MIRROR names a Debian mirror, $PIP_INDEX_URL an index of Python packages. torch is Debian's own build for the CPU.
set -eu

version=${1:?usage: run-on-python.sh 3.13|3.14 [pytest arguments]}
shift
case $version in
    3.13) suite=trixie ;;
    3.14) suite=forky ;;
    *) echo "no Debian suite is known for Python $version: expected 3.13 or 3.14" >&2; exit 2 ;;
esac
[ "${IN_OWN_NAMESPACE:-}" ] || IN_OWN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$version" "$@"
mirror=${MIRROR:-}  # none: the one that debootstrap knows
root=${CHROOT:-/var/tmp/webdataset-python-$version}
source=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$root/ready" ]; then
    # Older versions of debootstrap do not know the names of newer suites; their steps are those of sid.
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" /usr/share/debootstrap/scripts/sid
    chroot "$root" apt-get install --yes --quiet --no-install-recommends \
        python3 python3-venv python3-dev python3-torch bash bzip2 curl g++ gcc git libc6-dev procps xz-utils
    touch "$root/ready"
fi

# A copy, so that the tests of the chroot write nothing into the working tree.
rm -rf "$root/src"
mkdir -p "$root/src"
(cd "$source" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf -) | tar -xf - -C "$root/src"

# In a mount namespace of its own: the mounts end with this process, whatever ends it.
for directory in proc dev; do
    mount --rbind "/$directory" "$root/$directory"
done
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
cp /etc/hosts "$root/etc/hosts"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"  # this machine's own authorities

# Debian's torch is built without libuv, which torchrun asks for unless both variables say not to.
chroot "$root" /usr/bin/env -i PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin HOME=/root LANG=C.UTF-8 USE_LIBUV=0 \
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 \
    ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    /bin/sh -eu -c '
    cd /src
    [ -d /venv ] || "python$0" -m venv --system-site-packages /venv  # torch is there
    cat requirements/core.txt requirements/test.txt | grep -v -e "^-" -e "^#" -e "^torch==" > /requirements
    if ! cmp -s /requirements /venv/installed; then
        # No package may bring its own torch, with gigabytes of CUDA.
        python -c "from importlib.metadata import version; print(f\"torch=={version(\"torch\")}\")" > /constraints
        # Packages without wheels for this version are left out: the tests that need them are skipped and say so.
        while read -r requirement; do
            pip install -q --only-binary :all: --constraint /constraints "$requirement" \
                || pip install -q --only-binary :all: --constraint /constraints "${requirement%%==*}" \
                || echo "not installed: $requirement" >&2
        done < /requirements
        pip install -q hatchling editables  # what builds the package below
        cp /requirements /venv/installed
    fi
    pip install -q --no-deps --no-build-isolation --editable /src
    exec python -m pytest -q -p no:cacheprovider "$@"
' "$version" "$@"
