# SPDX-License-Identifier: BSD-3-Clause
# Run at every build: writes OUTPUT from TEMPLATE, and touches it only when version or commit have changed.
execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE TESSERA_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT TESSERA_COMMIT)
  set(TESSERA_COMMIT unknown)  # a source archive, or a machine without git
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
