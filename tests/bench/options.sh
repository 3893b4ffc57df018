#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by scripts that hand their options on: take_options NAMES "$@" gathers the named ones, each with its value,
# in `arguments`. --help shows the script's usage(); anything else is refused.
take_options() {
  local known=" $1 "
  shift
  arguments=()
  while (($#)); do
    case $1 in
      --help) usage && exit 0 ;;
      *' '* | '') usage >&2 && exit 2 ;;
    esac
    [[ $known == *" $1 "* && $# -ge 2 ]] || { usage >&2 && exit 2; }
    arguments+=("$1" "$2")
    shift 2
  done
}
