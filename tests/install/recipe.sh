#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the sections of jobs/tessera.def as `apptainer build` would, in a chroot: tests/install/recipe.sh FOLDER
#   FOLDER is made by debootstrap unless it is there. As root, on Debian; about 20 minutes and 9 GB, so no part of ctest.
#   Not seen here: the image file itself, --nv, and the host's folders as Apptainer binds them.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$(realpath -m "${1:?which folder}")
section() { awk -v name="%$1" '/^%/ {inside = $1 == name; next} inside' jobs/tessera.def; }
from=$(sed -n 's/^From: *//p' jobs/tessera.def)
[[ $from == debian:12 ]] || { echo "the recipe is from $from (this script knows debian:12)" >&2; exit 2; }
[[ -e $root/etc/debian_version ]] || debootstrap --variant=minbase bookworm "$root"

clean() { umount "$root/proc" "$root/dev"; }
trap clean EXIT
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
# The network as this machine reaches it.
cp /etc/resolv.conf "$root/etc/"
mkdir -p "$root/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/host.crt"
inside() {  # inside SECTION [SECTION]: with Apptainer's environment, a shell that stops at the first error
  { echo "export PIP_CERT=/etc/ssl/certs/host.crt"; for part; do section "$part"; done; } |
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
      chroot "$root" /bin/sh -e
}
section setup | APPTAINER_ROOTFS=$root sh -e
inside post
inside environment test
echo "passed: $(du -shx "$root" | cut -f1) on disk"
