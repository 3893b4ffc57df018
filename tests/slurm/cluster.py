#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A private Slurm cluster of four virtual nodes on this machine, for tests and for trying job scripts.

    cluster.py start RECORD    starts it and writes its folder, pids and environment to the file RECORD
    cluster.py env RECORD      prints the environment as shell exports: eval "$(tests/slurm/cluster.py env RECORD)"
    cluster.py stop RECORD     ends every job, every process it started, by pid, and removes its folder

Real slurmctld, four slurmd and munge, with a key, sockets and ports of their own; a Slurm that the machine may belong to
is not touched. Each node has 4 cores, whatever the machine has, and 2 fake GPUs (null devices). `start` exits with 77
and the reason where the machine cannot do it. The cluster ends by itself when the process that asked for it is gone.
"""
import argparse
import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NODES = ["n1", "n2", "n3", "n4"]
GPUS = 2  # per node

SLURM_CONF = """\
ClusterName=tessera
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits cred_expire + 1 seconds.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/pid/slurmctld
SlurmctldLogFile={folder}/log/slurmctld
SlurmdPidFile={folder}/pid/%n
SlurmdLogFile={folder}/log/%n
SlurmdSpoolDir={folder}/spool.%n
# PMIx keeps its folders there: one for all nodes would mix them up.
TmpFS={folder}/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmix
MessageTimeout=60
SlurmdTimeout=600
# From SIGTERM to SIGKILL, for what does not end by itself.
KillWait=15
TCPTimeout=30
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=2
RequeueExit=85
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
TaskProlog={folder}/taskprolog.sh
MailProg={folder}/mail.sh
{gres_types}
NodeName=n[1-4] NodeHostName={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=4 RealMemory=4000 {gres}
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP PriorityTier=1 GraceTime=12
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=2 PreemptMode=OFF
"""

# Open MPI's shared memory segment is named after the host and the local rank: virtual nodes need folders of their own.
TASK_PROLOG = """\
#!/bin/sh
echo "export OMPI_MCA_btl_vader_backing_directory={shm}/$SLURMD_NODENAME"
"""

MPI = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_btl_tcp_if_include": "lo",
       "OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


class Impossible(Exception):
    """This machine cannot run the cluster; the message says why."""


def wait_until(what, seconds, question, pause=0.1):
    """Polls question() until it is true; its last value. A loaded machine may need long: the limits are generous."""
    end = time.monotonic() + seconds
    while True:
        value = question()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(pause)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def free_ports(count):
    """The first of `count` ports in a row that nobody listens on."""
    for first in range(17000 + os.getpid() % 1000, 30000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    taken = stack.enter_context(socket.socket())
                    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    taken.bind(("127.0.0.1", port))
                return first
            except OSError:
                continue
    raise Impossible("no free ports")


def children_of(*markers):
    """Pids of processes whose environment has all markers: the daemons, their steps and what jobs left behind."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and has(pid, *markers)]


def has(pid, *markers):
    """Whether entries of its environment begin with the markers; one that ends in a zero byte is a whole entry."""
    try:
        environment = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return all(b"\0" + marker in environment for marker in markers)


class Cluster:
    def __init__(self, record):
        self.record = Path(record)
        self.data = json.loads(self.record.read_text()) if self.record.exists() else {}

    @property
    def folder(self):
        return Path(self.data["folder"])

    @property
    def environment(self):
        return self.data["environment"]

    def save(self):
        temporary = self.record.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.data, indent=1))
        temporary.replace(self.record)

    def launch(self, name, command):
        """A daemon in the foreground mode of its own, in a session of its own, recorded before anything can go wrong."""
        with open(self.folder / "log" / f"{name}.out", "ab") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                       cwd=self.folder, env={**os.environ, **self.environment})
        self.data["pids"][name] = process.pid
        self.save()
        return process

    def start_node(self, node):
        return self.launch(node, [shutil.which("slurmd"), "-D", "-N", node])

    def start(self, owner):
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        missing = [p for p in ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol") if not shutil.which(p)]
        if missing:
            raise Impossible(f"{', '.join(missing)} not installed (Debian: slurm-wlm munge; "
                             "jobs/setup.sh --tests installs them)")
        if os.getuid() != 0:
            raise Impossible("slurmd starts tasks as root only (this is user " + getpass.getuser() + ")")
        host = socket.gethostname().split(".")[0]
        folder = Path(tempfile.mkdtemp(prefix="tessera-slurm-"))
        folder.chmod(0o755)
        shm = Path(tempfile.mkdtemp(prefix="tessera-slurm-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        shm.chmod(0o755)
        port = free_ports(1 + len(NODES))
        self.data = {"folder": str(folder), "shm": str(shm), "owner": owner, "pids": {}, "gpus": True,
                     "environment": {"SLURM_CONF": str(folder / "slurm.conf"), **MPI}}
        self.save()
        for name in ["state", "log", "pid"]:
            (folder / name).mkdir()
        for node in NODES:
            for path in (folder / f"tmp.{node}", shm / node):
                path.mkdir()
                path.chmod(0o1777)
        try:
            for i in range(GPUS):
                os.mknod(folder / f"gpu{i}", 0o666 | 0o020000, os.makedev(1, 3))
        except OSError as error:
            self.data["gpus"] = False
            self.data["no_gpus"] = f"cannot make device files ({error})"
        gpus = self.data["gpus"]
        (folder / "slurm.conf").write_text(SLURM_CONF.format(
            host=host, port=port, first=port + 1, last=port + len(NODES), user=getpass.getuser(), folder=folder,
            gres_types="GresTypes=gpu" if gpus else "", gres=f"Gres=gpu:{GPUS}" if gpus else ""))
        if gpus:
            (folder / "gres.conf").write_text(f"NodeName=n[1-4] Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
        # The default way of gathering addresses lets some steps start before every node is ready, when all of them
        # share one host; a few in a hundred then crash.
        (folder / "mpi.conf").write_text("PMIxCollFence=ring\n")
        prolog = folder / "taskprolog.sh"
        prolog.write_text(TASK_PROLOG.format(shm=shm))
        prolog.chmod(0o755)
        mail = folder / "mail.sh"
        mail.write_text(f'#!/bin/sh\necho "$@" >>{folder}/mail\n')
        mail.chmod(0o755)
        self.save()

        munge = folder / "munge"
        munge.mkdir(mode=0o755)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        self.launch("munged", [shutil.which("munged"), "--foreground", "--force", f"--socket={munge}/socket",
                               f"--key-file={munge}/key", f"--pid-file={munge}/pid", f"--seed-file={munge}/seed",
                               f"--log-file={munge}/log", "--num-threads=2"])
        wait_until("munged's socket", 60, (munge / "socket").exists)
        self.launch("slurmctld", [shutil.which("slurmctld"), "-D"])
        for node in NODES:
            self.start_node(node)
        self.launch("keeper", [sys.executable, __file__, "keep", str(self.record.resolve())])
        wait_until("four idle nodes", 120, lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D") == str(len(NODES)))
        types = subprocess.run(["srun", "--mpi=list"], env={**os.environ, **self.environment}, text=True,
                               capture_output=True)
        if "pmix" not in types.stdout + types.stderr:
            raise Impossible("this Slurm was built without PMIx (Open MPI cannot start under it)")

    def ask(self, *command):
        """Standard output of a Slurm command; empty where it failed."""
        return subprocess.run(command, env={**os.environ, **self.environment}, text=True, capture_output=True).stdout.strip()

    def clear(self):
        """Ends every job, and returns when the nodes are free again."""
        subprocess.run(["scancel", f"--user={getpass.getuser()}"], timeout=60, capture_output=True,
                       env={**os.environ, **self.environment})
        wait_until("the last job's end", 60, lambda: not self.ask("squeue", "-h"))

    @property
    def marker(self):
        """In the environment of all of this cluster's processes, and of no other's: node names and job numbers are."""
        return f"SLURM_CONF={self.data.get('folder')}/".encode()

    def stop(self):
        """Ends the jobs first, then the daemons in the order opposite to their start, then whatever is left."""
        # A record may be older than this machine's last start: a number alone could be anybody's process by now.
        marker = self.marker
        pids = {name: pid for name, pid in self.data.get("pids", {}).items() if has(pid, marker)}
        if alive(pids.get("slurmctld", 0)):
            with contextlib.suppress(TimeoutError, subprocess.TimeoutExpired):
                self.clear()
        for name, pid in sorted(pids.items(), key=lambda item: item[0] == "munged"):
            if pid != os.getpid():
                end(pid)
        if "folder" in self.data:
            for pid in children_of(marker):
                end(pid, patience=0)
            wait_until("the last process's end", 30, lambda: not children_of(marker))
            shutil.rmtree(self.folder, ignore_errors=True)
            shutil.rmtree(self.data["shm"], ignore_errors=True)
        self.record.unlink(missing_ok=True)


def end(pid, patience=10):
    """SIGTERM, then SIGKILL to a process that we started."""
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        if patience:
            os.kill(pid, signal.SIGTERM)
            wait_until(f"process {pid} to end", patience, lambda: not alive(pid))
            return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def keep(record):
    """Stops the cluster when its owner is gone."""
    while Path(record).exists():
        owner = json.loads(Path(record).read_text())["owner"]
        if not alive(owner):
            Cluster(record).stop()
            return
        time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "env", "stop", "keep"])
    parser.add_argument("record", help="a file that describes the running cluster")
    parser.add_argument("--owner", type=int, help="pid; the cluster ends with this process (default: the caller's parent)")
    arguments = parser.parse_args()
    if arguments.what == "keep":
        keep(arguments.record)
        return 0
    cluster = Cluster(arguments.record)
    if arguments.what == "env":
        for name, value in cluster.environment.items():
            print(f"export {name}='{value}'")
        return 0
    if cluster.data:
        cluster.stop()
    if arguments.what == "stop":
        return 0
    try:
        cluster.start(arguments.owner or os.getppid())
    except Impossible as reason:
        cluster.stop()
        print(f"skipped: {reason}")
        return 77
    except BaseException:
        for log in sorted(cluster.folder.glob("log/*")):
            print(f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]), file=sys.stderr)
        cluster.stop()
        raise
    print(f"four nodes up; eval \"$({Path(__file__).name} env {arguments.record})\" lets sbatch and squeue find them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
