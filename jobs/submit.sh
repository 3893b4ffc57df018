#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Checks a job and submits it to Slurm:
#   jobs/submit.sh JOB.yaml --ranks N --time T [--site S] [--dry-run] [--set KEY=VALUE]... [-- SBATCH OPTIONS...]
#   --ranks N          MPI ranks, one per GPU where the site has GPUs; a study takes a list, 1,2,4
#   --time T           limit, as sbatch takes it: minutes, hours:minutes:seconds, days-hours, ...
#   --site S           jobs/sites/S.env, or a file with a '/' in its name (TESSERA_SITE)
#   --set KEY=VALUE    changes a key of the job file
#   --sweep TABLE      one array task per row of a .csv or .tsv table whose first line names keys of the job file
#   --at-once K        of a sweep: at most K tasks at a time
#   --strong, --weak   a scaling study
#   --study OPTIONS    of jobs/scaling.py, as one word: --study "--repeats 5"
#   --folder DIR       of a sweep or a study: its results (runs/NAME, NAME being the job file's)
#                      The job file and the table are copied: what they hold now is what will run, also after a restart.
#                      A sweep that was cut off goes on when the same is submitted again.
#   --name NAME        of the Slurm job (the job file's)
#   --ranks-per-node K (the site's)
#   --dry-run          shows what would be submitted
# It refuses with exit code 2 what `tessera check` says cannot work (bad input, memory that will not fit, a time limit
# shorter than two iterations and a checkpoint) and what Slurm would let wait for ever (more nodes, cores, memory or time
# than the partition has). It asks for the memory that `tessera plan` predicts and a share of the cores for each rank.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
refuse() { echo "submit: $*" >&2; exit 2; }
job='' ranks='' limit='' site=${TESSERA_SITE:-} dry='' name='' per_node=''
table='' at_once='' study='' study_options='' folder=''
settings=() sbatch_options=()
while (($#)); do
  case $1 in
    -h | --help) sed -n '3,22s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --dry-run) dry=1; shift; continue ;;
    --strong | --weak) study=${1#--}; shift; continue ;;
    --) shift; sbatch_options=("$@"); break ;;
    --*) (($# > 1)) || refuse "$1 has no value (it takes one) see --help" ;;
  esac
  case $1 in
    --ranks) ranks=$2 ;;
    --time) limit=$2 ;;
    --site) site=$2 ;;
    --set) settings+=(--set "$2") ;;
    --sweep) table=$2 ;;
    --at-once) at_once=$2 ;;
    --study) study_options=$2 ;;
    --folder) folder=$(realpath -m "$2") ;;
    --name) name=$2 ;;
    --ranks-per-node) per_node=$2 ;;
    --*) refuse "unknown option $1 (see --help) options of sbatch come last, behind --" ;;
    *)
      [[ -z $job ]] || refuse "two job files, $job and $1 (a submission takes one) use --sweep for many runs"
      job=$1
      shift
      continue
      ;;
  esac
  shift 2
done
[[ -n $job && -n $ranks && -n $limit ]] || refuse "a job file, --ranks and --time are needed (see --help)"
readable() { [[ -f $1 && -r $1 ]] || refuse "cannot read $1 (it is $2) is the path right?"; }
readable "$job" "the job to submit"
[[ -z $table ]] || readable "$table" "the table of the sweep"
[[ -z $table || -z $study ]] || refuse "--sweep and --$study together (each is a submission of its own) choose one"
list='^[1-9][0-9]*(,[1-9][0-9]*)*$' number='^[1-9][0-9]*$'
if [[ -n $study ]]; then
  [[ $ranks =~ $list ]] || refuse "--ranks is '$ranks' (a study takes a list of rank counts) write for example 1,2,4"
else
  [[ $ranks =~ $number ]] ||
    refuse "--ranks is '$ranks' (it takes a whole number from 1; a list is for --strong and --weak)"
fi
most=$(tr , '\n' <<<"$ranks" | sort -n | tail -1)

# Slurm's ways to write a time: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S -> seconds
seconds_of() {
  local days=0 rest=$1 parts
  [[ $rest =~ ^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$ ]] || return 1
  local with_days=
  [[ $rest == *-* ]] && days=${rest%%-*} rest=${rest#*-} with_days=1
  IFS=: read -ra parts <<<"$rest"
  if [[ -n $with_days ]]; then
    echo $((10#$days * 86400 + 10#${parts[0]} * 3600 + 10#${parts[1]:-0} * 60 + 10#${parts[2]:-0}))
  elif ((${#parts[@]} == 3)); then
    echo $((10#${parts[0]} * 3600 + 10#${parts[1]} * 60 + 10#${parts[2]}))
  else
    echo $((10#${parts[0]} * 60 + 10#${parts[1]:-0}))
  fi
}
limit_seconds=$(seconds_of "$limit") ||
  refuse "--time is '$limit' (it is no time that Slurm knows) write minutes, or days-hours:minutes:seconds"

job=$(realpath --no-symlinks "$job")  # as tessera run: paths in it begin beside its name
[[ -n $table ]] && table=$(realpath "$table")
[[ $site == */* ]] && site=$(realpath "$site")
stem=$(basename "$job")
stem=${stem%.*}
name=${name:-$stem}
folder=${folder:-$here/runs/$name}
own_program=${TESSERA_PROGRAM:-}
cd "$here"
source jobs/batch.sh
use_site "$site"
! grep -qE '^[^#]*\brelative_to *[:=]' "$job" - < <(printf '%s\n' ${settings[@]+"${settings[@]}"}) ||
  refuse "the job says relative_to (what is submitted is a copy, which says that itself) submit the original"

# --- what Slurm has --------------------------------------------------------------------------------------------------------
# The partition that the job will go to: the last one named, else the default.
read -ra site_options <<<"$SITE_OPTIONS"
asked=(${site_options[@]+"${site_options[@]}"} ${sbatch_options[@]+"${sbatch_options[@]}"})
partition=$SITE_PARTITION
exported=${SBATCH_EXPORT:-ALL}  # of this environment, to the job
for ((i = 0; i < ${#asked[@]}; ++i)); do
  case ${asked[i]} in
    --partition=*) partition=${asked[i]#*=} ;;
    --partition | -p) partition=${asked[i + 1]:-} ;;
    --export=*) exported=${asked[i]#*=} ;;
    --export) exported=${asked[i + 1]:-} ;;
  esac
done
[[ $exported == *ALL* || $exported == *OMP_NUM_THREADS* ]] || unset OMP_NUM_THREADS
slurm='' longest='' has_cores=''  # whether it answers; of the partition: the time limit, cores of its smallest node
if listed=$(sinfo --noheader --format '%P|%l' 2>/dev/null); then
  slurm=1
  [[ -n $partition ]] || partition=$(sed -n '/\*|/{s/\*|.*//p;q;}' <<<"$listed")
  row=$(grep -m1 -E "^${partition%%,*}\*?\|" <<<"$listed") ||
    refuse "no partition '$partition' (Slurm has $(sed 's/|.*//' <<<"$listed" | xargs)) set SITE_PARTITION, or -- --partition"
  longest=${row#*|}
  [[ $SITE_LAUNCHER != srun || $(srun --mpi=list 2>&1) == *pmix* ]] ||
    refuse "this Slurm's srun has no PMIx (srun --mpi=list names none: it could not start ranks) set SITE_LAUNCHER=mpirun"
  has_cores=$(sinfo --noheader --Node --partition "$partition" --format %c |
    awk 'NR == 1 || $1 + 0 < least {least = $1 + 0} END {if (NR) print least}')
elif [[ -z $dry ]]; then
  command -v sbatch >/dev/null ||
    refuse "no sbatch on this machine (the job is to go to Slurm) submit from a login node, or look with --dry-run"
  refuse "Slurm does not answer ($(sinfo 2>&1 >/dev/null | sed -n 1p)) try again later, or look with --dry-run"
fi
if most_seconds=$(seconds_of "$longest") && ((limit_seconds > most_seconds)); then  # infinite and the like are no times
  refuse "--time $limit is longer than partition $partition allows ($longest; the job would wait for ever)" \
    "ask for less: a job that meets its limit goes on by itself"
fi

# Of a job that one submits from, nothing is to reach the new one.
for key in "${!SLURM_@}"; do
  [[ $key == @(SLURM_CONF|SLURM_CLUSTERS|SLURM_JWT|SLURM_TIME_FORMAT) ]] || unset "$key"
done

# --- nodes ----------------------------------------------------------------------------------------------------------------
gpus=$SITE_GPUS_PER_NODE
if [[ -z $per_node ]]; then
  ((gpus)) && per_node=$gpus || per_node=$SITE_RANKS_PER_NODE
fi
[[ $per_node =~ $number ]] || refuse "--ranks-per-node is '$per_node' (it takes a whole number from 1)"
((gpus == 0 || per_node <= gpus)) ||
  refuse "$per_node ranks on nodes of $gpus GPUs (two ranks would share a GPU) use --ranks-per-node $gpus or less"
((per_node > most)) && per_node=$most
nodes=$(((most + per_node - 1) / per_node))
cores='' all_cores=${SITE_CORES_PER_NODE:-$has_cores}
if [[ -n $all_cores ]]; then
  # Of a GPU node that is not filled, each rank takes its GPU's share; of a CPU node, the share of the ranks meant for it.
  divisor=$((gpus ? gpus : (per_node > SITE_RANKS_PER_NODE ? per_node : SITE_RANKS_PER_NODE)))
  cores=$((all_cores / divisor))
  ((cores)) ||
    refuse "$per_node ranks on nodes of $all_cores cores (a rank needs one) use fewer --ranks-per-node"
fi

# --- what tessera says ----------------------------------------------------------------------------------------------------
program=${TESSERA_PROGRAM:-build/release/bin/tessera}
begin_check() {
  [[ -z $(type -t module) ]] && SITE_MODULES=''  # a login node without them
  load_modules || echo "submit: note: SITE_MODULES or SITE_SETUP failed here (message above); the job will do the same" >&2
  read -ra container <<<"$SITE_CONTAINER"
  [[ ${#container[@]} -gt 0 || -x $program ]] ||
    refuse "no $program (the job has to be checked) build the preset release first"
}
check() { OMP_NUM_THREADS=1 ${container[@]+"${container[@]}"} "$program" check "$job" --ranks "$1" "${@:2}"; }
# The cost model counts what the check leaves out, the network's features, and knows how long an iteration takes on a
# machine that is described: "BYTES SECONDS" of the fullest and the slowest rank. Nothing for a job that it cannot plan.
predict() {
  local file
  file=$(mktemp 2>/dev/null || mktemp --tmpdir=/tmp)
  if OMP_NUM_THREADS=1 ${container[@]+"${container[@]}"} "$program" plan "$job" --ranks "$1" "${@:2}" \
    ${SITE_MACHINE:+--machine "$SITE_MACHINE"} --csv "$file" >/dev/null 2>&1; then
    "$(python)" -c 'import csv, sys
for row in csv.DictReader(open(sys.argv[1])): print(row["resident_bytes"], row["seconds"])' "$file" | tail -1
  fi
  rm -f "$file"
}
bytes_of() { awk -v v="$1" -v u="$2" 'BEGIN {split("B kB MB GB TB", s); for (i = 1; i <= 5; ++i) f[s[i]] = 1000^(i-1);
  f["KiB"] = 1024; f["MiB"] = 1024^2; f["GiB"] = 1024^3; f["TiB"] = 1024^4; printf "%.0f", v * f[u]}'; }
lead='' write=0 iteration='' need=0  # seconds: two iterations and the checkpoint, once a run has told; parts of it. Bytes.
digest() {  # digest TEXT PREDICTION: each becomes the larger of what it is and what these say
  local value unit
  read -r value unit < <(sed -n 's/^memory  *\([0-9.]*\) \([A-Za-z]*\) resident on the fullest rank.*/\1 \2/p' <<<"$1") || true
  if [[ -n ${value:-} ]]; then
    value=$(bytes_of "$value" "$unit")
    need=$((value > need ? value : need))
  fi
  read -r value < <(sed -n 's/^lead time  *\([0-9]*\) s.*/\1/p' <<<"$1") || true
  [[ -n ${value:-} ]] && lead=$((value > ${lead:-0} ? value : ${lead:-0}))
  # as in "two iterations and 1 min 30 s for the checkpoint"
  value=$(sed -n 's/^lead time .* and \([0-9].*\) for the checkpoint.*/\1/p' <<<"$1" |
    awk '{f["s"] = 1; f["min"] = 60; f["h"] = 3600; for (i = 1; i < NF; i += 2) t += $i * f[$(i + 1)]; printf "%d", t}')
  write=$((${value:-0} > write ? ${value:-0} : write))
  if read -r value unit <<<"${2:-}" && [[ -n $value ]]; then
    need=$((value > need ? value : need))
    [[ -z $SITE_MACHINE ]] || iteration=$(awk -v a="${iteration:-0}" -v b="$unit" 'BEGIN {print (a > b ? a : b)}')
  fi
  return 0
}
begin_check
threads=${OMP_NUM_THREADS:-$cores}  # as jobs/launch.sh takes them
# What is submitted has one name, made of all that decides what is computed. Job file and table may change from now on; the
# data that they name are looked at again when a job starts.
content() { cat "$1" ${2:+"$2"}; }
before=$(content "$job" "$table" | sha256sum)
rows=1
[[ -z $table ]] || rows=$("$(python)" jobs/sweep_table.py count "$table") || exit 2
inputs=$("$(python)" jobs/sweep_table.py inputs "$job" "$table" ${settings[@]+"${settings[@]}"}) || exit 2
id=$(printf '%s\n' "$job" ${settings[@]+"${settings[@]}"} "$before" "$inputs" | sha256sum | cut -c1-10)
if [[ -n $table ]]; then
  checked=$((rows < 32 ? rows : 32))
  for ((i = 0; i < checked; ++i)); do
    row_settings=()
    while IFS= read -rd '' setting; do
      row_settings+=(--set "$setting")
    done < <("$(python)" jobs/sweep_table.py row "$table" "$i")
    text=$(check "$most" "${settings[@]}" "${row_settings[@]}") || refuse "row $i of $table was not accepted (message above)"
    digest "$text" "$(predict "$most" "${settings[@]}" "${row_settings[@]}")"
  done
  ((checked == rows)) || echo "submit: checked the first $checked of $rows rows" >&2
else
  text=$(check "$most" "${settings[@]}") || refuse "the job was not accepted (message above)"
  digest "$text" "$(predict "$most" "${settings[@]}")"
fi
[[ -z $lead && -n $iteration ]] && lead=$(awk -v i="$iteration" -v w="$write" 'BEGIN {print int(2 * i + w + 1)}')

have='' of=
if ((gpus)) && [[ -n $SITE_MEMORY_PER_GPU ]]; then
  have=$SITE_MEMORY_PER_GPU of="a GPU of $SITE_MEMORY_PER_GPU GiB"
elif ((gpus == 0)) && [[ -n $SITE_MEMORY_PER_NODE ]]; then
  have=$(awk -v m="$SITE_MEMORY_PER_NODE" -v k="$per_node" 'BEGIN {print m / k}')
  of="a rank's share of a node, 1/$per_node of $SITE_MEMORY_PER_NODE GiB"
fi
if [[ -n $have ]] && awk -v n="$need" -v h="$have" 'BEGIN {exit !(n > h * 1073741824)}'; then
  refuse "$(awk -v n="$need" 'BEGIN {printf "%.3g GiB", n / 1073741824}') per rank on the fullest of $most ranks" \
    "(that is more than $of) use more ranks or fewer per node, or a site with more memory"
fi
minutes_for() { echo "ask for at least $(((2 * $1 + 59) / 60)) minutes"; }
if [[ -n $lead ]]; then
  ((limit_seconds >= lead)) ||
    refuse "--time $limit is $limit_seconds s (two iterations and a checkpoint take $lead s: it would never get on)" \
      "$(minutes_for "$lead")"
else
  ((limit_seconds > write)) ||
    refuse "--time $limit is $limit_seconds s (a checkpoint alone takes about $write s: it would never get on)" \
      "$(minutes_for "$write")"
fi
# Iterations vary, so the signal comes twice as early as it has to, and a minute before the end at least; 5 minutes where
# no run has told yet how long an iteration takes. But half of the time is for iterations, where the lead leaves as much.
early=$((2 * ${lead:-150} + write))
((early < 60)) && early=60
((early > limit_seconds / 2)) && early=$((limit_seconds / 2))
((early < ${lead:-0})) && early=$lead
((limit_seconds >= 4 * ${lead:-$write})) ||
  echo "submit: of $limit_seconds s, $early s are kept for the checkpoint; a longer --time restarts less often" >&2

# --- what goes to sbatch ----------------------------------------------------------------------------------------------------
options=(--job-name="$name" --nodes="$nodes" --ntasks="$most" --ntasks-per-node="$per_node" --time="$limit")
[[ -n $cores ]] && options+=(--cpus-per-task="$cores")
# Memory per node. A study's smaller runs need more per rank, and none is to share its nodes: all there is. On GPU nodes the
# prediction is of the GPUs' memory; the host's share follows the share of GPUs.
memory=
if [[ -n $study ]]; then
  memory=0
elif ((gpus == 0 && need > 0)); then
  memory=$(awk -v n="$need" -v k="$per_node" -v f="$SITE_MEMORY_MARGIN" 'BEGIN {printf "%d", n * k * f / 1048576 + 1}')M
elif ((gpus)) && [[ -n $SITE_MEMORY_PER_NODE ]]; then
  memory=$((SITE_MEMORY_PER_NODE * per_node / gpus))G
fi
grep -qE -- '^--mem(-per-cpu|-per-gpu)?(=|$)' < <(printf '%s\n' ${asked[@]+"${asked[@]}"}) && memory=
[[ -n $memory ]] && options+=(--mem="$memory")
[[ -n $SITE_PARTITION ]] && options+=(--partition="$SITE_PARTITION")
[[ -n $SITE_ACCOUNT ]] && options+=(--account="$SITE_ACCOUNT")
((gpus)) && options+=("${SITE_GPU_OPTION:---gpus-per-node=$per_node}")
options+=(${site_options[@]+"${site_options[@]}"})
# mpirun's ranks belong to the batch script, not to a step of Slurm: the script gets the signal and passes it on. A study
# decides itself which run is under way.
to=
[[ $SITE_LAUNCHER == mpirun || -n $study ]] && to=B:
options+=(--signal="${to}USR1@$early")
arguments=()
[[ -n $site ]] && arguments+=(--site "$site")
[[ -n $own_program ]] && arguments+=(--program "$own_program")  # the job may begin without this environment
[[ -n $table ]] && results=$folder/$id kept=$folder/$id/submitted || kept=$here/runs/submitted/$id
copy=$kept/$(basename "$job") table_copy=
if [[ -n $table ]]; then
  table_name=${table##*/} table_copy=$kept/table
  [[ $table_name != *.* ]] || table_copy+=.${table_name##*.}
fi
settings=(--set "relative_to=$(quoted "$(dirname "$job")")" ${settings[@]+"${settings[@]}"})
if [[ -n $table ]]; then
  holder=$(squeue --noheader --format '%F %T|%k' 2>/dev/null | sed -n "s/|tessera-$id\$//p" | sort -u | paste -sd, -) || true
  [[ -z $holder ]] ||
    refuse "this sweep is array $holder (it was submitted already, and computes $results) wait for it, or scancel ${holder%% *}"
  left=$("$(python)" jobs/sweep_table.py left "$table" "$results") || exit 2
  if [[ -z $left ]]; then
    echo "submit: all $rows rows are finished, in $results: nothing to submit. To compute them anew, give --name or --folder" >&2
    last=$(find "$folder" -maxdepth 1 -type l -lname "$id" -printf '%f\n' | sort -n | tail -1)
    [[ " ${sbatch_options[*]-} " != *" --parsable "* || -n $dry ]] || echo "$last"
    exit 0
  fi
  longest_array=$(scontrol show config 2>/dev/null | sed -n 's/^MaxArraySize *= *//p') || true
  last=${left##*[-,]}
  ((last < ${longest_array:-1000000000})) ||
    refuse "row $last of $table is above the tasks of an array here (MaxArraySize is $longest_array: 0 to $((longest_array - 1)))" \
      "split the table"
  [[ ! -d $results ]] || echo "submit: goes on with what is in $results; rows to compute: $left" >&2
  options+=(--array="$left${at_once:+%$at_once}" --output="$folder/%x-%A_%a.log" --comment="tessera-$id")
  script=jobs/sweep.sbatch
  arguments+=(--submission "$id" "$copy" "$table_copy" "$folder")
elif [[ -n $study ]]; then
  options+=(--output="$folder/%x-%j.log")
  script=jobs/scaling_$study.sbatch
  read -ra more <<<"$study_options"
  arguments+=("$copy" --ranks "$ranks" --folder "$folder" --ranks-per-node "$per_node" ${more[@]+"${more[@]}"})
else
  folder=$here/runs/logs
  options+=(--output="$folder/%x-%j.log")
  script=jobs/reconstruct.sbatch
  arguments+=("$copy")
fi
command=(sbatch --chdir="$here" "${options[@]}" ${sbatch_options[@]+"${sbatch_options[@]}"}
  "$script" "${arguments[@]}" ${settings[@]+"${settings[@]}"})
told="submit: ranks: $most, nodes: $nodes, cores per rank: ${cores:-1 (nobody says how many a node has)},"
told+=" threads per rank: ${threads:-1}${OMP_NUM_THREADS:+ (OMP_NUM_THREADS)}"
[[ -n $memory ]] && told+=", memory per node: ${memory/#0*/all}"
echo "$told" >&2
if [[ -n ${OMP_NUM_THREADS:-} && -n $cores ]] && ((OMP_NUM_THREADS < cores)); then
  echo "submit: warning: OMP_NUM_THREADS is $OMP_NUM_THREADS in this shell and goes along ($((cores - OMP_NUM_THREADS)) of the" \
    "$cores cores of a rank would stand idle) unset it for a thread per core" >&2
fi
# Slurm knows best what it can start; what it cannot, it would let wait for ever.
if [[ -n $slurm ]] && ! answer=$(sbatch --test-only --chdir="$here" "${options[@]}" ${sbatch_options[@]+"${sbatch_options[@]}"} \
  "$script" "${arguments[@]}" 2>&1); then
  refuse "partition ${partition:-(none)} cannot run this ($(tail -1 <<<"$answer" | sed 's/^[a-z]*: error: //')); its nodes:" \
    "$(sinfo --noheader ${partition:+--partition "$partition"} --format '%D of %c cores and %m MB' | paste -sd, -)"
fi
if [[ -n $dry ]]; then
  printf '%s\n' "$text"
  echo
  echo "would make $folder and submit:"
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
mkdir -p "$folder" "$kept"  # Slurm does not make the folder of a log
keep() { cat "$1" >"$2.$$" && mv "$2.$$" "$2"; }  # whole or not at all: a task may read it
keep "$job" "$copy"
keep - "$kept/inputs" <<<"$inputs"
[[ -z $table ]] || keep "$table" "$table_copy"
[[ $(content "$copy" "$table_copy" | sha256sum) == "$before" ]] ||
  refuse "$job or its table was changed while it was checked (what was checked is to run) submit again"
exec "${command[@]}"
