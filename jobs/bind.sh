#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Gives a rank one GPU, the cores near it and the network card near it, then runs PROGRAM: jobs/bind.sh PROGRAM [ARGS...]
#   Stands between the launcher and the program: srun ... jobs/bind.sh tessera run JOB.yaml
#   GPU      of those that the rank may use, the one of its number on the node; CUDA_VISIBLE_DEVICES then names it alone.
#   cores    of those that the rank may use, the GPU's; ranks with the same near cores share them out.
#   network  UCX_NET_DEVICES names the card with the shortest way to the GPU, unless it is set. NCCL finds it by itself.
#   Without a GPU: ranks that fill a whole node share out its cores; otherwise nothing is changed, but that OMP_PROC_BIND
#            is set aside where all ranks of a node may use the same cores.
#   TESSERA_BIND=off changes nothing; TESSERA_BIND=verbose says on standard error what was chosen.
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '3,10s/^# //p' "$0"; exit 0 ;;
  "") echo "usage: jobs/bind.sh PROGRAM [ARGUMENTS...]   (--help says more)" >&2; exit 2 ;;
esac
if ! command -v "$1" >/dev/null; then
  echo "bind: no program $1 (this rank would fail to start it) is the name right, and built?" >&2
  exit 2
fi
if [[ ${TESSERA_BIND:-} == off ]]; then
  exec "$@"
fi
sysfs=${TESSERA_SYSFS:-/sys}  # tests put a machine of their own there

# --- which rank of how many on this node; mpirun first: inside an allocation it starts ranks with Slurm's names set too ---
rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${PMI_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-0}}}}
ranks=${OMPI_COMM_WORLD_LOCAL_SIZE:-${PMI_LOCAL_SIZE:-${MPI_LOCALNRANKS:-}}}
if [[ -z $ranks ]]; then
  # Slurm says it for all nodes, as in 4(x2),3: node SLURM_NODEID's entry.
  ranks=1 node=${SLURM_NODEID:-0}
  IFS=, read -ra entries <<<"${SLURM_STEP_TASKS_PER_NODE:-}"
  for entry in ${entries[@]+"${entries[@]}"}; do
    times=1
    [[ $entry == *'(x'* ]] && times=${entry##*(x} && times=${times%)}
    if ((node < times)); then
      ranks=${entry%%(*}
      break
    fi
    node=$((node - times))
  done
fi

# --- lists of cores such as 0-3,8,10-11 -------------------------------------------------------------------------------
expand() {
  local part part_list
  IFS=, read -ra part_list <<<"$1"
  for part in ${part_list[@]+"${part_list[@]}"}; do
    seq "${part%-*}" "${part#*-}"
  done
}
allowed() { expand "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"; }
both() { comm -12 <(sort <<<"$1") <(sort <<<"$2") | sort -n; }  # cores in both lists, one a line
share() {  # share CORES PLACE OF: cores on lines -> this rank's, as a list; nothing when there are fewer cores than ranks
  local cores count
  mapfile -t cores <<<"$1"
  count=$((${#cores[@]} / $3))
  if ((count > 0)); then
    local IFS=,
    echo "${cores[*]:$2*count:count}"
  fi
}

# --- the GPU ------------------------------------------------------------------------------------------------------------
export CUDA_DEVICE_ORDER=${CUDA_DEVICE_ORDER:-PCI_BUS_ID}  # CUDA then counts as nvidia-smi does
table=$(nvidia-smi --query-gpu=index,uuid,pci.bus_id --format=csv,noheader 2>/dev/null | tr -d ' ' || true)
if [[ -n ${CUDA_VISIBLE_DEVICES+set} ]]; then
  visible=$CUDA_VISIBLE_DEVICES
else
  # Slurm names no GPU with --gpu-bind=none, only how many of the node's are the job's.
  count=${SLURM_GPUS_ON_NODE:-0}
  if [[ -n $table ]]; then
    there=$(wc -l <<<"$table")
    if ((count > 0 && count < there)); then
      echo "bind: $there GPUs are visible and $count are this job's (Slurm does not say which) leave out --gpu-bind=none" >&2
      exit 2
    fi
    count=$there
  fi
  visible=$(seq -s, 0 $((count - 1)))
fi
IFS=, read -ra gpus <<<"$visible"
gpu='' bus='' cores='' card=''
if ((${#gpus[@]})); then
  gpu=${gpus[rank % ${#gpus[@]}]}
  export CUDA_VISIBLE_DEVICES=$gpu
fi
bus_of() {  # a GPU's number or UUID -> its PCI address as sysfs writes it, 0000:3b:00.0
  local found
  found=$(awk -F, -v gpu="$1" '$1 == gpu || index($2, gpu) == 1 {print tolower($3); exit}' <<<"$table")
  [[ -n $found ]] && echo "${found: -12}"
}
near_cores() { cat "$sysfs/bus/pci/devices/$1/local_cpulist" 2>/dev/null || true; }

if [[ -n $gpu ]] && bus=$(bus_of "$gpu"); then
  near=$(near_cores "$bus")
  usable=$(both "$(expand "$near")" "$(allowed)")
  # Ranks on this node whose GPU has the same near cores, and this one's place among them. A rank that sees one GPU only
  # (the launcher chose) cannot know the others: the launcher's binding then stands.
  place=0 of=0
  if ((${#gpus[@]} > 1)); then
    for ((r = 0; r < ranks; ++r)); do
      other=$(bus_of "${gpus[r % ${#gpus[@]}]}") && [[ $(near_cores "$other") == "$near" ]] || continue
      ((r < rank)) && place=$((place + 1))
      of=$((of + 1))
    done
  else
    of=1
  fi
  [[ -n $usable && $of -gt 0 ]] && cores=$(share "$usable" "$place" "$of")

  # The card whose PCI path shares most steps with the GPU's; one of the same NUMA node otherwise.
  path=$(readlink -f "$sysfs/bus/pci/devices/$bus") best=-1
  numa=$(cat "$sysfs/bus/pci/devices/$bus/numa_node" 2>/dev/null || echo -1)
  for candidate in "$sysfs"/class/infiniband/*; do
    grep -qs ACTIVE "$candidate"/ports/1/state || continue
    theirs=$(readlink -f "$candidate/device")
    IFS=/ read -ra a <<<"$path"
    IFS=/ read -ra b <<<"$theirs"
    steps=0
    while ((steps < ${#a[@]} && steps < ${#b[@]})) && [[ ${a[steps]} == "${b[steps]}" ]]; do
      steps=$((steps + 1))
    done
    steps=$((2 * steps))
    [[ $(cat "$theirs/numa_node" 2>/dev/null) == "$numa" ]] && steps=$((steps + 1))
    ((steps > best)) && best=$steps card=${candidate##*/}
  done
  [[ -n $card ]] && export UCX_NET_DEVICES=${UCX_NET_DEVICES:-$card:1}
elif [[ -z $gpu ]]; then
  # Slurm may have given other jobs the rest of this node: cores are only shared out when all of them are this job's.
  usable=$(allowed)
  whole=$(wc -l <<<"$usable")
  if ((ranks > 1 && ${SLURM_CPUS_ON_NODE:-0} >= whole && whole >= $(nproc --all))); then
    cores=$(share "$usable" "$rank" "$ranks")
  fi
fi
# Ranks that nobody binds see the same cores: OpenMP would bind the first thread of each to the first of them.
pinned=${OMP_PROC_BIND:-${OMP_PLACES:-${GOMP_CPU_AFFINITY:-false}}}
if [[ -z $cores && ranks -gt 1 && ${pinned,,} != false ]]; then
  there=$(allowed | wc -l)
  if ((there > 1 && (there >= ${SLURM_CPUS_ON_NODE:-$there} || there >= $(nproc --all)))); then
    ((rank)) || echo "bind: note: OMP_PROC_BIND, OMP_PLACES and GOMP_CPU_AFFINITY are set aside (all ranks would share one core)" >&2
    export OMP_PROC_BIND=false
  fi
fi
if [[ -n $cores ]]; then
  binder=(taskset -c "$cores")
  command -v numactl >/dev/null && binder=(numactl --physcpubind="$cores" --localalloc)
fi
if [[ ${TESSERA_BIND:-} == verbose ]]; then
  echo "bind: $(hostname -s) rank $rank of $ranks on the node: GPU ${gpu:-none}${bus:+ ($bus)}, cores ${cores:-unchanged}," \
    "network ${card:-unchanged}" >&2
fi
exec ${binder[@]+"${binder[@]}"} "$@"
