#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the site of the documents: jobs/site.sh [--version NAME] [--repository URL] [--output DIR] [--setup]
#   Pages: README.md, docs, the notebooks with their stored output, the package's docstrings, the headers' comments, a gallery.
#   It lies in build/site/VERSION (--output: in DIR/VERSION); versions that are there already stay, and the list in the head of
#   a page leads to them. To look at it: python3 -m http.server -d build/site (from a disk all but search and versions work).
#   --version: `next` where docs/changelog.md begins with [Unreleased], else that of the header.
#   --repository: where links to sources lead, https://HOST/OWNER/tessera/blob/COMMIT; without it that of the remote `origin`,
#     where it is on the web, else the sources are named without a link.
#   --setup: only makes build/site-venv (pinned packages, 170 MB), which needs the network once; building needs none.
#   Broken links and missing docstrings are errors. The theme, Material for MkDocs, is maintained until May 2027; its successor
#   is Zensical.
set -euo pipefail
unset PYTHONPATH PYTHONHOME  # a module's, for another Python
caller=$PWD
cd "$(dirname "$0")/.."

packages=(mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11)
version='' repository='' output=build/site setup_only=''
while (($#)); do
  case $1 in
    -h | --help) sed -n '3,13s/^# //p' "$0"; exit 0 ;;
    --setup) setup_only=1 ;;
    --version | --repository | --output)
      [[ -n ${2:-} ]] || { echo "$1 has no value (it names something) write it behind" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift ;;
    *) echo "usage: jobs/site.sh [--version NAME] [--repository URL] [--output DIR] [--setup]" >&2; exit 2 ;;
  esac
  shift
done
[[ $version =~ ^[A-Za-z0-9._-]*$ && $version != .* ]] || {
  echo "--version is '$version' (it becomes a folder) write letters, digits, dots and dashes" >&2
  exit 2
}

[[ $output == /* || $output == build/site ]] || output=$caller/$output

venv=build/site-venv
wanted=()
for package in "${packages[@]}"; do
  name=${package%%==*}
  compgen -G "$venv/lib/python3*/site-packages/${name//-/_}-${package##*==}.dist-info/RECORD" >/dev/null || wanted+=("$package")
done
if ((${#wanted[@]})) || ! "$venv/bin/python" -c '' 2>/dev/null; then
  echo "installing into $venv: ${packages[*]}"
  mkdir -p build
  python=python3
  [[ ! -x .venv/bin/python ]] || python=.venv/bin/python
  if ! "$python" -m venv --clear "$venv" || ! "$venv/bin/python" -m pip install -q --retries 1 --disable-pip-version-check "${packages[@]}"; then
    rm -rf "$venv"
    echo "the packages of the site could not be installed (message above) run jobs/site.sh --setup where there is a network" >&2
    exit 3
  fi
fi
[[ -z $setup_only ]] || exit 0

if [[ -z $version ]]; then
  version=next
  if ! grep -m1 '^## ' docs/changelog.md | grep -q Unreleased; then
    version=$(sed -n 's/^#define TESSERA_VERSION_[A-Z]* //p' include/tessera/core/version.hpp | paste -sd.)
  fi
fi
if [[ -z $repository ]]; then
  remote=$(git remote get-url origin 2>/dev/null || true)
  remote=${remote%.git}
  [[ $remote =~ ^(ssh://)?git@([^:/]+)[:/](.*)$ ]] && remote=https://${BASH_REMATCH[2]}/${BASH_REMATCH[3]}
  [[ $remote == https://* ]] && repository=$remote/blob/$(git rev-parse HEAD)
fi
"$venv/bin/python" -B jobs/website/build.py "$output" "$version" "$repository"
echo "$output/$version/index.html"
