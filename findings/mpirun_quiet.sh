#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mpirun --quiet of Open MPI 4.1 when something is wrong.
# Guess: the manual says that it suppresses informative messages, so errors still appear.
# Really: the errors' paragraphs are gone too. A missing program, too few slots or a host file that is not there end
#   with a bare exit code and not one byte on stdout or stderr: in a batch log, a job that failed for no reason.
#   (Open MPI 5 refuses --quiet as unknown.)
# Seen 2026-11-27, Open MPI 4.1.4 (Debian 12): a missing program is 0 bytes and exit code 132 with --quiet, a paragraph
#   of 344 bytes without; a missing host file (624 bytes) and too few slots (1274) are 0 bytes and exit code 1.
source "$(dirname "$0")/support.sh"
debian_packages openmpi-bin libopenmpi3
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
usr=$folder/debian/usr libraries=$folder/debian/usr/lib/$(uname -m)-linux-gnu
if [[ -d $libraries/openmpi ]]; then  # unpacked, not installed: its parts have to be told where they are
  export OPAL_PREFIX=$usr OPAL_BINDIR=$usr/bin OPAL_DATADIR=$usr/share OPAL_PKGDATADIR=$usr/share/openmpi
  export OPAL_LIBDIR=$libraries/openmpi/lib OPAL_PKGLIBDIR=$libraries/openmpi/lib/openmpi3
  export OPAL_SYSCONFDIR=$folder/debian/etc/openmpi PMIX_MCA_pcompress_base_silence_warning=1
fi
tries=("-n 1 ./no-such-program" "--hostfile no-such-file -n 1 true" "-n 4096 true")
for arguments in "${tries[@]}"; do
  code=0
  # shellcheck disable=SC2086
  mpirun.openmpi $arguments >loud 2>&1 || true
  mpirun.openmpi --quiet $arguments >quiet 2>&1 || code=$?
  echo "mpirun $arguments: $(wc -c <loud) bytes of explanation; with --quiet $(wc -c <quiet), exit code $code"
  (($(wc -c <loud) > 200 && $(wc -c <quiet) == 0 && code != 0))
done
mpirun.openmpi --quiet -n 1 echo started | grep -qx started
