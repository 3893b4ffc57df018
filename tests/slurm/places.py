# SPDX-License-Identifier: BSD-3-Clause
"""jobs/bind.sh on pretended machines: places.py SOURCE. Which GPU, cores and network card each rank gets.

The machine is a tree like /sys with four GPUs on two NUMA nodes and four network cards, and an nvidia-smi that lists them.
Its cores are this machine's, cut in two, so that binding to them can be seen in /proc; with one core that part says less.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

bind = Path(sys.argv[1]) / "jobs/bind.sh"
work = Path.cwd() / "places"
shutil.rmtree(work, ignore_errors=True)
cores = sorted(os.sched_getaffinity(0))
half = max(1, len(cores) // 2)
near = [cores[:half], cores[half:] or cores]  # of NUMA node 0, of 1


def device(path, numa):
    """A PCI device in the tree; its last folder is its address."""
    folder = work / "sys/devices" / path
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    (folder / "local_cpulist").write_text(",".join(map(str, near[numa])) + "\n")
    link = work / "sys/bus/pci/devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def card(name, path, numa, state):
    folder = device(path, numa)
    port = work / "sys/class/infiniband" / name / "ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text(state)
    (work / "sys/class/infiniband" / name / "device").symlink_to(folder)


device("pci0000:15/0000:15:01.0/0000:17:00.0", 0)
device("pci0000:15/0000:15:02.0/0000:27:00.0", 0)
device("pci0000:95/0000:95:01.0/0000:97:00.0", 1)
device("pci0000:95/0000:95:02.0/0000:a7:00.0", 1)
card("mlx5_0", "pci0000:15/0000:15:02.0/0000:28:00.0", 0, "4: ACTIVE\n")  # on the switch of GPU 1
card("mlx5_1", "pci0000:15/0000:15:01.0/0000:18:00.0", 0, "1: DOWN\n")    # on that of GPU 0, without a cable
card("mlx5_2", "pci0000:80/0000:81:00.0", 0, "4: ACTIVE\n")               # the same socket, far away
card("mlx5_3", "pci0000:b0/0000:b1:00.0", 1, "4: ACTIVE\n")               # the other socket, far away
(work / "bin").mkdir()
(work / "bin/nvidia-smi").write_text("""#!/bin/sh
echo "0, GPU-aaaa-1, 00000000:17:00.0"
echo "1, GPU-bbbb-2, 00000000:27:00.0"
echo "2, GPU-cccc-3, 00000000:97:00.0"
echo "3, GPU-dddd-4, 00000000:A7:00.0"
""")
(work / "bin/nvidia-smi").chmod(0o755)

# Nothing of a launcher or of Slurm that this test itself may run under.
bare = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "OMPI", "PMI", "CUDA", "UCX", "TESSERA"))}


def run(gpus=True, **environment):
    """(GPU, network, cores) that a program behind bind.sh finds."""
    path = f"{work}/bin:{bare['PATH']}" if gpus else bare["PATH"]
    show = ("echo ${CUDA_VISIBLE_DEVICES-unset} ${UCX_NET_DEVICES-unset};"
            "sed -n 's/Cpus_allowed_list:[ \\t]*//p' /proc/self/status")
    done = subprocess.run([str(bind), "bash", "-c", show], text=True, capture_output=True,
                          env=bare | {"PATH": path, "TESSERA_SYSFS": str(work / "sys")} | environment)
    assert done.returncode == 0, done.stderr
    first, allowed = done.stdout.splitlines()
    return *first.split(), numbers(allowed)


def numbers(text):
    return [c for part in text.split(",") for c in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)]


def mpirun(rank, ranks):
    return {"OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(ranks)}


def part(numa, place, of):
    count = len(near[numa]) // of
    return near[numa][place * count:(place + 1) * count] or cores


# Four ranks, four GPUs: one each; two share the cores of a socket; the nearest card with a cable.
assert run(**mpirun(0, 4)) == ("0", "mlx5_0:1", part(0, 0, 2)), run(**mpirun(0, 4))
assert run(**mpirun(1, 4)) == ("1", "mlx5_0:1", part(0, 1, 2)), run(**mpirun(1, 4))
assert run(**mpirun(2, 4)) == ("2", "mlx5_3:1", part(1, 0, 2)), run(**mpirun(2, 4))
assert run(**mpirun(3, 4)) == ("3", "mlx5_3:1", part(1, 1, 2)), run(**mpirun(3, 4))
# Fewer ranks than GPUs: more cores each.
assert run(**mpirun(0, 1)) == ("0", "mlx5_0:1", part(0, 0, 1))
# Slurm's names, for the third of its nodes: 4(x2),2 says that it has two ranks.
slurm = {"SLURM_LOCALID": "1", "SLURM_NODEID": "2", "SLURM_STEP_TASKS_PER_NODE": "4(x2),2"}
assert run(**slurm) == ("1", "mlx5_0:1", part(0, 1, 2))
# A choice that the launcher made is kept, by number or by name; the near cores and card follow it.
assert run(**mpirun(1, 2), CUDA_VISIBLE_DEVICES="2") == ("2", "mlx5_3:1", part(1, 0, 1))
assert run(**mpirun(1, 2), CUDA_VISIBLE_DEVICES="GPU-dddd-4") == ("GPU-dddd-4", "mlx5_3:1", part(1, 0, 1))
assert run(**mpirun(1, 2), CUDA_VISIBLE_DEVICES="3,2")[0] == "2"
assert run(**mpirun(0, 1), UCX_NET_DEVICES="mine:1")[1] == "mine:1"
# No GPU: nothing is hidden; a whole node is shared out, part of one is left alone.
assert run(gpus=False, **mpirun(1, 2)) == ("unset", "unset", cores)
whole = {"SLURM_CPUS_ON_NODE": str(os.cpu_count())}
count = len(cores) // 2
if count and len(cores) == os.cpu_count():
    assert run(gpus=False, **mpirun(1, 2), **whole) == ("unset", "unset", cores[count:2 * count])
else:
    print("only part of the machine is this test's: sharing out a whole node was not tested")
assert run(gpus=False, **mpirun(1, 4096), **whole) == ("unset", "unset", cores)  # more ranks than cores
assert run(**mpirun(3, 4), TESSERA_BIND="off") == ("unset", "unset", cores)
# Ranks that nobody binds do not pin their threads, each to the first core: the first rank says so.
for rank in (0, 1):
    done = subprocess.run([str(bind), "bash", "-c", "echo $OMP_PROC_BIND"], text=True, capture_output=True,
                          env=bare | mpirun(rank, 2) | {"OMP_PLACES": "cores"})
    if len(cores) > 1 and len(cores) == os.cpu_count():
        assert done.stdout == "false\n" and done.stderr.count("bind: note: OMP_PROC_BIND") == 1 - rank, done
# Unclear which GPUs are the job's: an error that says what to do.
done = subprocess.run([str(bind), "true"], text=True, capture_output=True,
                      env=bare | {"PATH": f"{work}/bin:{bare['PATH']}", "SLURM_GPUS_ON_NODE": "2"})
assert done.returncode == 2 and "leave out --gpu-bind=none" in done.stderr, done
print("passed")
