#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Packs build/release for a machine that has CUDA 13 and torch 2.11 (any Python) and nothing else of what tessera needs:
# jobs/bundle.sh [--all] [OUT.tar.xz]      (default build/tessera-bundle.tar.xz)
#   Inside: programs, the tests labeled gpu (--all: every test, larger), jobs/, data/, Open MPI with its launcher and plugins, HDF5, libvips and all they
#   need, except what comes with the machine: the C and C++ runtime, torch, CUDA, NCCL.
#   There: tar xf tessera-bundle.tar.xz; tessera-bundle/run COMMAND...     e.g. tessera-bundle/run tests/gpu.sh
set -euo pipefail
all=0
case ${1:-} in
  -h | --help) sed -n '3,7s/^# //p' "$0"; exit 0 ;;
  --all) all=1; shift ;;
esac
out=$(realpath -m "${1:-$(dirname "$0")/../build/tessera-bundle.tar.xz}")
cd "$(dirname "$0")/.."
build=build/release
limit=$((60 * 1024 * 1024))  # bytes
[[ -x $build/bin/tessera ]] || { echo "no $build/bin/tessera (there is nothing to pack) build the preset release" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/tessera-bundle
mkdir -p "$root/$build/bin" "$root/lib" "$root/bin"

# --- ours ---------------------------------------------------------------------------------------------------------------
for program in "$build"/bin/*; do
  [[ -f $program && -x $program ]] && cp "$program" "$root/$build/bin/"
done
strip "$root/$build"/bin/*
cp -r jobs python "$root/"
cp -r tests "$root/" && find "$root/tests" -name '*.cpp' -delete
rm -rf "$root/tests/report"  # its tests are Python and stay at home
cp -r data include "$root/"
((all)) || rm "$root"/data/weights/drunet_wide_*.safetensors  # no test on a GPU asks for them
mkdir "$root/docs" && cp docs/*.md "$root/docs/"  # tests compare them with the program
mkdir -p "$root/runs/quickstart"
.venv/bin/python jobs/show_quickstart.py photo "$root/runs/quickstart"
# What ctest would run, for a machine without ctest: name, labels, ranks, time limit, environment, program and arguments.
ctest --test-dir "$build" --show-only=json-v1 | python3 -c '
import json, os, sys
build, every = sys.argv[1], sys.argv[2] == "1"
for test in json.load(sys.stdin)["tests"]:
    command = test.get("command", [])
    ranks = "1"
    if command and command[0].endswith("jobs/launch.sh"):
        ranks, command = command[2], command[3:]
    if not command or not command[0].startswith(build + "/bin/test_"):
        continue
    properties = {p["name"]: p["value"] for p in test["properties"]}
    if not every and "gpu" not in properties.get("LABELS", []):
        continue
    if not os.path.exists(command[0]):
        print("not built, left out:", test["name"], file=sys.stderr)
        continue
    command[0] = os.path.relpath(command[0], os.path.dirname(os.path.dirname(build)))
    labels = ",".join(properties.get("LABELS", [])) or "-"
    # Folders are given by ./run; the stub of a driver stays at home.
    environment = [v for v in properties.get("ENVIRONMENT", []) if not v.startswith(("TESSERA_SOURCE", "TESSERA_BINARY", "LD_LIBRARY"))]
    if any(v.startswith("LD_LIBRARY") for v in properties.get("ENVIRONMENT", [])):
        environment.append("TESSERA_NO_STUB=1")
    assert not any(" " in v for v in environment), environment
    print(test["name"], labels, ranks, int(properties.get("TIMEOUT", 120)), " ".join(environment) or "-", *command, sep="\t")
' "$PWD/$build" "$all" >"$root/tests/list.tsv"
[[ -s $root/tests/list.tsv ]] || { echo "no test program is built (gpu.sh has nothing to run there) build the preset release" >&2; exit 2; }
if ((!all)); then
  for program in "$root/$build"/bin/*; do
    name=$(basename "$program")
    [[ $name == @(tessera|tessera-cuda|bench_rays) ]] || grep -q "/$name\b" "$root/tests/list.tsv" || rm "$program"
  done
fi

# --- Open MPI: programs, plugins, messages. No InfiniBand, Omni-Path or UCX: they would bring their own drivers. --------
prefix=$(ompi_info --path prefix --parsable | sed 's/.*://')
plugins=$(ompi_info --path pkglibdir --parsable | sed 's/.*://')
messages=$(ompi_info --path pkgdatadir --parsable | sed 's/.*://')
relative() { realpath -m --relative-to="$prefix" "$1"; }
mkdir -p "$root/$(relative "$plugins")" "$root/$(relative "$messages")"
for plugin in "$plugins"/mca_*.so; do
  [[ $plugin == *_@(ucx|ofi|openib|psm|psm2|flux).so ]] || cp "$plugin" "$root/$(relative "$plugins")/"
done
cp "$messages"/*.txt "$root/$(relative "$messages")/"
cp -L "$(command -v orterun)" "$root/bin/mpirun"
cp -L "$(command -v orted)" "$root/bin/orted"
pmix=$(find "$prefix/lib" -type d -name 'pmix*' -path '*/pmix[0-9]*' -print -quit)  # Debian keeps PMIx in a prefix of its own
[[ -d $pmix/lib/pmix ]] || { echo "no PMIx plugins below $prefix/lib (mpirun needs them) is Open MPI Debian's?" >&2; exit 1; }
mkdir -p "$root/pmix/lib" "$root/pmix/share"
cp -r "$pmix/lib/pmix" "$root/pmix/lib/"
cp -r "$pmix/share/pmix" "$root/pmix/share/"
find "$root/pmix" ! -type d ! -name '*.so' ! -name '*.txt' -delete

# --- the libraries that these need, whole closure ------------------------------------------------------------------------
from_machine='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|mvec|anl|nsl|gcc_s|stdc\+\+|gomp))\.so[^/]*$'
from_torch='/site-packages/|/cuda[^/]*/|/lib(cuda|cudart|nccl|nvidia)[^/]*\.so'
mapfile -t needed < <(find "$root" -type f \( -name '*.so' -o -perm -u+x \) ! -name '*.sh' -exec ldd {} + 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | grep -Ev "$from_machine" | grep -Ev "$from_torch")
[[ " ${needed[*]} " == *libmpi.so* ]] || { echo "ldd does not name libmpi (tessera needs it) is this a complete build?" >&2; exit 1; }
for library in "${needed[@]}"; do
  cp -L "$library" "$root/lib/"
done
strip --strip-unneeded "$root"/lib/*.so*
# ICU's tables (30 MB) serve XML in unusual encodings, which no picture that we read contains: an empty set of them, with
# the header that ICU looks for (its source/stubdata), keeps the loader content.
for tables in "$root"/lib/libicudata.so.*; do
  [[ -e $tables ]] || continue
  version=${tables##*.so.}
  printf 'const unsigned char icudt%s_dat[48] __attribute__((aligned(16))) = {32, 0, 0xda, 0x27, 20, 0, 0, 0, 0, 0, 2, 0,
    0x54, 0x6f, 0x43, 0x50, 1};\n' "$version" |
    gcc -shared -fPIC -x c -Wl,-soname,"libicudata.so.$version" -o "$tables" -
done

# The newest C library that anything inside asks for; ./run compares it with the machine's.
# Scripts are no objects, which objdump calls a failure.
{ find "$root" -type f \( -name '*.so*' -o -perm -u+x \) -exec objdump -T {} + 2>/dev/null || true; } | grep -o 'GLIBC_2\.[0-9]*' |
  sort -uV | tail -1 | sed 's/GLIBC_//' >"$root/glibc"
[[ -s $root/glibc ]] || { echo "objdump names no GLIBC version (install binutils)" >&2; exit 1; }

cat >"$root/run" <<'RUN'
#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command with the bundled libraries and this machine's torch: ./run COMMAND...   (from the bundle's folder)
#   e.g.  ./run jobs/launch.sh -n 2 build/release/bin/tessera info;  ./run tests/gpu.sh;  ./run tests/bundled.sh
# PYTHON names the Python that has torch (python3).
set -euo pipefail
root=$(cd "$(dirname "$0")" && pwd)
needed=$(<"$root/glibc")
here=$(getconf GNU_LIBC_VERSION | sed 's/.* //')
if [[ $(printf '%s\n%s\n' "$needed" "$here" | sort -V | tail -1) != "$here" ]]; then
  echo "the C library here is $here (the bundle was made with libraries that need $needed) use a machine or container with Debian 12, Ubuntu 24.04 or newer, or make the bundle on an older one" >&2
  exit 2
fi
torch=$("${PYTHON:-python3}" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])') || {
  echo "no torch in ${PYTHON:-python3} (tessera uses its libraries) install torch 2.11.0, or name a Python in PYTHON" >&2
  exit 2
}
path=$root/lib:$torch/lib
for folder in "$torch"/../nvidia/*/lib /usr/local/cuda/lib64; do
  [[ -d $folder ]] && path=$path:$folder
done
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$root/bin:$root/build/release/bin:$PATH
export OPAL_PREFIX=$root PMIX_PREFIX=$root/pmix PMIX_PKGLIBDIR=$root/pmix/lib/pmix PMIX_PKGDATADIR=$root/pmix/share/pmix
export TESSERA_SOURCE_DIR=$root TESSERA_BINARY_DIR=$root/build/release
cd "$root"
exec "$@"
RUN
chmod +x "$root/run"

tar -C "$work" --sort=name --owner=0 --group=0 -cf - tessera-bundle | xz -9 >"$out.tmp"
mv "$out.tmp" "$out"
size=$(stat -c %s "$out")
echo "$out: $((size / 1024 / 1024)) MiB, $(wc -l <"$root/tests/list.tsv") test programs, ${#needed[@]} libraries"
if ((!all && size > limit)); then
  echo "larger than $((limit / 1024 / 1024)) MiB (a lent machine may refuse it) see which folder grew: tar tvf $out" >&2
  exit 1
fi
