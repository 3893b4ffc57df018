# SPDX-License-Identifier: BSD-3-Clause
"""Two nodes on one machine, whose network can be cut: each has a name, network interfaces and shared memory of its own; files are
shared, as on a cluster. Takes root."""
import subprocess


class TwoNodes:
    NAMES = ("node-a", "node-b")
    NETWORK = "10.77.0.0/24"
    SHELL = ("sh", "-c", "echo $$; exec cat")  # says its number, and keeps what it is in

    def __init__(self, folder):
        """`folder` exists, and keeps a script while the nodes are used."""
        self.agent = folder / "agent.sh"
        self.holders = []
        # All that runs on the nodes, and what joins them: ends with its first process.
        self.switch = []
        self.hold("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        first = subprocess.check_output(["pgrep", "--parent", str(self.holders[0].pid)], text=True).strip()
        self.switch = ["nsenter", "--target", first, "--net", "--mount", "--pid"]
        self.nodes = {}
        try:
            self.do("ip", "link", "add", "bridge", "type", "bridge")
            self.do("ip", "link", "set", "bridge", "up")
            for number, name in enumerate(self.NAMES, 1):
                process = self.hold("unshare", "--net", "--uts", "--ipc", "--mount")
                self.nodes[name] = ["nsenter", "--target", process, "--net", "--uts", "--ipc", "--mount"]
                self.do("ip", "link", "add", name, "type", "veth", "peer", "eth0", "netns", process)
                self.do("ip", "link", "set", name, "master", "bridge", "up")
                self.do(*self.nodes[name], "sh", "-ec", f"hostname {name}; mount -t tmpfs tmpfs /dev/shm; ip link set lo up;"
                        f"ip address add 10.77.0.{number}/24 dev eth0; ip link set eth0 up")
        except BaseException:
            self.close()
            raise
        # What mpirun calls in ssh's place: HOST COMMAND...
        self.agent.write_text("#!/bin/sh\nhost=$1; shift\ncase $host in\n" + "".join(
            f'  {name}) exec {" ".join(enter)} sh -c "$*" ;;\n' for name, enter in self.nodes.items()) + "esac\n")
        self.agent.chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for holder in self.holders:
            holder.kill()
            holder.communicate()

    def hold(self, *command):
        self.holders.append(subprocess.Popen([*self.switch, *command, *self.SHELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return self.holders[-1].stdout.readline().strip()

    def do(self, *command):
        subprocess.run([*self.switch, *command], check=True)

    def launcher(self, ranks, names=NAMES):
        """What starts a program from the first of `names` on both, `ranks` on each at most: -n N PROGRAM... are still to come."""
        return [*self.switch, *self.nodes[names[0]], "mpirun", "--host", ",".join(f"{name}:{ranks}" for name in names),
                "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(self.agent),
                "--mca", "oob_tcp_if_include", self.NETWORK, "--mca", "btl_tcp_if_include", self.NETWORK]

    def end_launcher(self):
        """And its helper on the other node, which it cannot reach where the network is cut."""
        self.do("pkill", "--signal", "KILL", "--exact", "mpirun|orted")

    def cut(self):
        """From now on what one node sends reaches nobody, and neither is told."""
        self.do("ip", "link", "set", self.NAMES[1], "nomaster")

    def mend(self):
        self.do("ip", "link", "set", self.NAMES[1], "master", "bridge")
