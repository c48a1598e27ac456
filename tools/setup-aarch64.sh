#!/bin/sh
# Installs what `cmake --preset aarch64` needs on a Debian machine of another architecture, through apt:
#   gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu   the cross compiler
#   qemu-user                                      runs the tests
#   libjansson-dev, libpcre2-dev, libutf8proc-dev, libxxhash-dev, libelf-dev, libmsgpack-dev, libzstd-dev, zlib1g-dev, libcmocka-dev of
#   arm64   the libraries that Ochre and its tests link
# The libraries need arm64 as a second architecture of dpkg (multiarch). Does nothing when all is there.
set -eu

packages="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user
libjansson-dev:arm64 libpcre2-dev:arm64 libutf8proc-dev:arm64 libxxhash-dev:arm64 libelf-dev:arm64 libmsgpack-dev:arm64 libzstd-dev:arm64
zlib1g-dev:arm64 libcmocka-dev:arm64"

missing=
for p in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $p"
done
if [ -z "$missing" ]; then
    echo "setup-aarch64: nothing is missing"
    exit 0
fi
echo "setup-aarch64: installing, to cross-build for 64-bit Arm and to run the tests under qemu:$missing"

sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup-aarch64: root or sudo is needed to install packages" >&2; exit 1; }
    sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
if ! dpkg --print-foreign-architectures | grep -qx arm64; then
    echo "setup-aarch64: adding arm64 as a second architecture, for the libraries"
    $sudo dpkg --add-architecture arm64
fi
$sudo apt-get update -q
# shellcheck disable=SC2086  # a list of words
$sudo apt-get install -q -y --no-install-recommends $missing
