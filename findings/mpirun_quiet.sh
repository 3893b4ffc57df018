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
open_mpi
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
