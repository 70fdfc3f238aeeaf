"""Machines for a test: network and UTS namespaces, 10.77.0.1 and on, two on one wire, more on a bridge. As tests/support/machines.cpp does it."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jobs

ADDRESSES = ("10.77.0.1", "10.77.0.2", "10.77.0.3")
NAMES = ("one", "two", "three")


def cannot_be_made():
    """Why this machine cannot make any; empty: it can."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if not all(map(shutil.which, ("ip", "nsenter", "unshare"))):
        return "making network namespaces needs ip (iproute2), nsenter and unshare (util-linux)"
    tried = subprocess.run(["unshare", "--net", "--uts", "ip", "link", "add", "left", "type", "veth", "peer", "name", "right"],
                           capture_output=True)
    return "" if tried.returncode == 0 else "this kernel makes no network namespaces with veth here"


class Machines:
    """Go when this object is closed, with all that was started there. With `own_run` each has a /run of its own, where daemons have their sockets."""

    def __init__(self, folder, count=2, own_run=False):
        self.own_run = own_run
        secret = Path(folder) / "secret"
        secret.write_text("5" * 64)
        secret.chmod(0o600)
        self.secret = str(secret)
        self.started = []
        self.holders = [self._hold(name) for name in NAMES[:count]]
        pids = [str(holder.pid) for holder in self.holders]
        self.bridge = None
        if count == 2:
            subprocess.run(["ip", "link", "add", "wire", "netns", pids[0], "type", "veth", "peer", "name", "wire", "netns", pids[1]], check=True)
        else:
            self.bridge = self._hold("bridge")
            ports = "".join(f"ip link add port{machine} type veth peer name wire netns {pid}; ip link set port{machine} master hub up; "
                            for machine, pid in enumerate(pids))
            self._set_up(self.bridge, f"ip link add hub type bridge; ip link set hub up; {ports}")
        for holder, address in zip(self.holders, ADDRESSES):
            self._set_up(holder, f"ip link set lo up; ip addr add {address}/24 dev wire; ip link set wire up")

    @staticmethod
    def _set_up(holder, commands):
        subprocess.run(["nsenter", "-t", str(holder.pid), "-n", "sh", "-ec", commands], check=True)

    def line_that_cuts_off(self, machine):
        """A command line, for any process on any machine, after which that machine gets nothing from the others, nor they from it."""
        return ["nsenter", "-t", str(self.bridge.pid), "-n", "bridge", "link", "set", "dev", f"port{machine}", "state", "0"]

    def _hold(self, name):
        with_mounts, mounted = (["--mount"], "mount -t tmpfs none /run; ") if self.own_run else ([], "")
        holder = subprocess.Popen(["unshare", "--net", "--uts", *with_mounts, "sh", "-c", f"{mounted}hostname {name}; echo; read line"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"\n"
        return holder

    def on(self, machine, *line):
        """The command line that does it there."""
        return ["nsenter", "-t", str(self.holders[machine].pid), "-n", "-u", *(["-m", f"--wd={os.getcwd()}"] if self.own_run else []), *map(str, line)]

    def start(self, machine, *line, **variables):
        """A process there, which finds the secret by its file."""
        environment = jobs.environment(UNISONO_SECRET_FILE=self.secret, HOME="/nonexistent", **variables)
        process = subprocess.Popen(self.on(machine, *line), env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.started.append(process)
        return process

    def python(self, machine, *line, **variables):
        return self.start(machine, sys.executable, *line, **variables)

    def wait(self):
        """What all that was started has said, as CompletedProcess."""
        done = []
        for process in self.started:
            stdout, stderr = process.communicate(timeout=jobs.MAY_TAKE_S)
            done.append(subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr))
        self.started = []
        return done

    def close(self):
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.communicate()
        for holder in [*self.holders, *filter(None, [self.bridge])]:
            holder.stdin.close()
            holder.stdout.close()
            holder.wait()
