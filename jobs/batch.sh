# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What the batch scripts (jobs/*.sbatch) share; they source it in the clone's root.
# docs/slurm.md tells the whole story of signals, exit codes and restarts.

# Numbers have points, and ranges of letters are ASCII, in every locale; names keep their letters.
if [[ -n ${LC_ALL:-} ]]; then
  export LC_CTYPE=$LC_ALL
  unset LC_ALL
fi
export LC_NUMERIC=C LC_COLLATE=C
unset PYTHONPATH PYTHONHOME  # a module's, for another Python than that of the scripts

say() { echo "$(date +%FT%T) job ${SLURM_JOB_ID:-none}: $*"; }

# quoted TEXT: as a YAML value
quoted() { local q="'"; echo "$q${1//$q/$q$q}$q"; }

# use_site NAME_OR_FILE: settings of the cluster. jobs/sites/NAME.env, or a file with a '/' in its name; none: defaults.
use_site() {
  SITE_LAUNCHER=srun SITE_LAUNCHER_OPTIONS='' SITE_MODULES='' SITE_SETUP='' SITE_CONTAINER='' SITE_REQUEUE=scontrol
  SITE_RESTARTS=20 SITE_PARTITION='' SITE_ACCOUNT='' SITE_OPTIONS='' SITE_GPUS_PER_NODE=0 SITE_GPU_OPTION=''
  SITE_RANKS_PER_NODE=1 SITE_CORES_PER_NODE='' SITE_MEMORY_PER_NODE='' SITE_MEMORY_PER_GPU='' SITE_MACHINE=''
  SITE_MEMORY_MARGIN=1.25
  local site=${1:-} file key
  [[ -z $site ]] && return
  [[ $site == */* ]] && file=$site || file=jobs/sites/$site.env
  if [[ ! -r $file ]]; then
    echo "no site file $file (the site ${site##*/} is described there) copy one of jobs/sites:" \
      "$(cd jobs/sites && ls -- *.env | xargs)" >&2
    exit 2
  fi
  while read -r key; do
    if [[ ! -v $key ]]; then
      echo "$file sets $key (no script reads it) see docs/slurm.md for the names" >&2
      exit 2
    fi
  done < <(sed -n 's/^\(SITE_[A-Z_]*\)=.*/\1/p' "$file")
  # shellcheck disable=SC1090
  source "$file"
  [[ -z $SITE_CONTAINER ]] || export TESSERA_PROGRAM=${TESSERA_PROGRAM:-tessera}  # the container's own
  if [[ $SITE_LAUNCHER != srun && $SITE_LAUNCHER != mpirun ]]; then
    echo "$file: SITE_LAUNCHER is '$SITE_LAUNCHER' (it names no launcher) write srun or mpirun" >&2
    exit 2
  fi
  if [[ $SITE_REQUEUE != scontrol && $SITE_REQUEUE != exit ]]; then
    echo "$file: SITE_REQUEUE is '$SITE_REQUEUE' (it names no way to requeue) write scontrol, or exit where slurm.conf" \
      "has RequeueExit=85" >&2
    exit 2
  fi
}

# load_modules: those of the site, and its set-up
load_modules() {
  local -a modules
  read -ra modules <<<"$SITE_MODULES"
  if ((${#modules[@]})); then
    # A job that was submitted with --export=NONE begins without the function.
    # shellcheck disable=SC1091
    [[ -n $(type -t module) || ! -r /etc/profile ]] || source /etc/profile
    module load "${modules[@]}" || return 1
  fi
  [[ -z $SITE_SETUP ]] || eval "$SITE_SETUP" || return 1
  unset PYTHONPATH PYTHONHOME
}

# begin_job [--site S] [--program P] [--submission ID] ...: what every batch script does first; leaves the other arguments in
# `arguments`, and what was submitted in `submission`.
begin_job() {
  arguments=() submission=''
  local site=${TESSERA_SITE:-}
  while (($#)); do
    case $1 in
      --site) site=${2:-}; shift ;;
      --site=*) site=${1#*=} ;;
      --program) export TESSERA_PROGRAM=${2:-}; shift ;;
      --submission) submission=${2:-}; shift ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  use_site "$site"
  tessera=${TESSERA_PROGRAM:-build/release/bin/tessera}
  load_modules || exit 1
  export TESSERA_LAUNCHER=$SITE_LAUNCHER TESSERA_LAUNCHER_OPTIONS="$SITE_LAUNCHER_OPTIONS ${TESSERA_LAUNCHER_OPTIONS:-}"
  # srun takes the number of cores per rank from its own variable only (since Slurm 22.05).
  [[ -n ${SLURM_CPUS_PER_TASK:-} ]] && export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
  say "${SLURM_NTASKS:-1} ranks of ${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}} threads on ${SLURM_CPUS_PER_TASK:-1} cores" \
    "each${SLURM_MEM_PER_NODE:+, $SLURM_MEM_PER_NODE MB per node}, on ${SLURM_JOB_NODELIST:-this host}," \
    "restart ${SLURM_RESTART_COUNT:-0} of at most $SITE_RESTARTS"
}

# changed JOB: the files that the job names and that are others than when it was submitted, or gone; JOB is what was kept then.
changed() {
  local inputs
  inputs=$(dirname "$1")/inputs
  [[ ! -f $inputs ]] || "$(python)" jobs/sweep_table.py changed "$inputs"
}

# note_changes JOB: says so.
note_changes() {
  local files
  files=$(changed "$1")
  [[ -z $files ]] || say "note: $files changed since this job was submitted: what is there now is computed"
}

# Python of .venv, which has h5py; the system's will do where a script needs the standard library only.
python() { [[ -x .venv/bin/python ]] && echo .venv/bin/python || echo python3; }

# supervise COMMAND...: runs it, passing signals on, and leaves its exit code in `code`.
#   USR1 reaches this shell only where Slurm was asked for that (--signal=B:USR1@...): srun's tasks get it from Slurm.
#   TERM reaches this shell when Slurm ends the job; srun's tasks get it from Slurm at the same time. mpirun would kill its
#   ranks within a second: it gets USR1 instead, which it passes on, and they checkpoint just as well.
supervise() {
  local child='' caught='' early=''
  told_to_end=
  # A child that is this shell's image yet, and not COMMAND, would take the signal by the traps below and forget it.
  tell() {
    if [[ -z $child ]]; then early=1; return; fi
    while [[ -e /proc/$child && $(</proc/$$/cmdline) == "$(</proc/$child/cmdline)" ]] 2>/dev/null; do sleep 0.1; done
    kill -USR1 "$child" 2>/dev/null
  }
  trap 'caught=1; tell' USR1
  trap 'caught=1; told_to_end=1; [[ $SITE_LAUNCHER == srun ]] || tell' TERM
  "$@" &
  child=$!
  [[ -z $early ]] || tell  # the signal came before the command had a number
  while :; do
    caught=
    code=0
    wait "$child" || code=$?
    [[ -z $caught ]] && break
  done
  trap - USR1
}

# ranks N PROGRAM [ARGUMENTS...]: the command line for supervise, in the array `command`.
ranks() {
  local -a container
  read -ra container <<<"$SITE_CONTAINER"
  command=(jobs/launch.sh -n "$1" jobs/bind.sh ${container[@]+"${container[@]}"} "${@:2}")
}

# The name that Slurm knows this job by. A number alone may mean a whole array: its last task has the array's own number.
job_name() {
  if [[ -n ${SLURM_ARRAY_JOB_ID:-} ]]; then
    echo "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
  else
    echo "$SLURM_JOB_ID"
  fi
}

# finish CODE: ends the batch script as the exit code of the program asks. Does not return.
finish() {
  local code=$1 restarts=${SLURM_RESTART_COUNT:-0}
  [[ $code == 85 && -n $told_to_end ]] && code=86
  case $code in
    0) say "done" ;;
    85 | 138)  # 138: USR1 came before the program could take it
      if ((restarts >= SITE_RESTARTS)); then
        say "checkpointed, not requeued: restarted $restarts times (SITE_RESTARTS is $SITE_RESTARTS); submit again to go on"
        exit 3  # not 85, which a site may requeue by itself
      fi
      local what=checkpointed
      [[ $code == 85 ]] || what="ended before it began"
      say "$what, requeueing (restart $((restarts + 1)) of at most $SITE_RESTARTS): as planned, this job goes on by itself"
      if [[ $SITE_REQUEUE == scontrol ]]; then
        say "CANCELLED in Slurm's next line is its word for this requeue"
        scontrol requeue "$(job_name)" && wait_for_slurm
        say "not requeued (scontrol's message is above); submit again to go on"
      fi
      ;;
    86 | 140)  # 140: the signal came before the program could take it
      # scancel, preemption and the end of the time all begin with SIGTERM. Slurm knows which one it is: a script that
      # ended now would make a preempted job a failed one, and one that requeued itself would revive cancelled jobs.
      say "checkpointed on SIGTERM; Slurm decides what comes next"
      [[ -z $told_to_end ]] && wait_for_slurm
      ;;
    2) say "bad input, see the message above; not requeued" ;;
    3) say "the run failed, see the message above; not requeued" ;;
    137)
      say "a rank was killed (exit code 137), perhaps because the node's memory was used up: \`sacct --jobs=$(job_name)" \
        "--format=JobID,State,ReqMem,MaxRSS\` tells where accounts are kept, \`-- --mem=...\` behind jobs/submit.sh asks for" \
        "more. Not requeued; submitting again goes on from the last checkpoint, if one was written"
      ;;
    *)
      say "ended with exit code $code; not requeued. Submitting again goes on from the last checkpoint, if one was written" ;;
  esac
  exit "$code"
}

# Slurm ends this script within its grace time; 15 minutes say that it has forgotten.
wait_for_slurm() {
  trap 'exit "$code"' TERM
  sleep 900 &
  wait $!
}
