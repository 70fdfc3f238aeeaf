"""Slurm on two machines: munged, slurmd and, on the first, slurmctld, all from Debian's packages and all as root. A machine's daemons share files with the other's only where a
cluster's would: each has its folder. All have one slurm.conf, since a daemon says to another where it listens in words of its own."""
import os
import subprocess

from waiting import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "scancel", "sinfo")
STARTS_WITHIN_S = 30
NAMES = ("one", "two")
CONFIGURATION = """
ClusterName=unisono
SlurmctldHost=one(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SwitchType=switch/none
MailProg=/bin/true
KillWait=2
ReturnToService=2
NodeName=one NodeAddr=10.77.0.1 CPUs=4 State=UNKNOWN
NodeName=two NodeAddr=10.77.0.2 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=one,two Default=YES MaxTime=INFINITE State=UP
"""


def network_of(pid):
    """Of a process that may just end."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


class Slurm:
    def __init__(self, machines, folder):
        self.machines, self.folder, self.daemons = machines, folder, []
        self.folder.mkdir()
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for machine, name in enumerate(NAMES):
            self._prepare(machine, name)
            self._daemon(machine, "munged", "--foreground", "--force", f"--key-file={key}", "--socket=/run/munge/munge.socket.2", f"--pid-file={self.folder / name}/munged.pid",
                         f"--seed-file={self.folder / name}/munged.seed")
        for machine in range(2):
            self._wait(lambda: subprocess.run(machines.on(machine, "munge", "--no-input"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0)
        self._daemon(0, "slurmctld", "-D", "-c")
        for machine, name in enumerate(NAMES):
            self._daemon(machine, "slurmd", "-D", "-N", name)
        self._wait(lambda: self._ask("sinfo", "--noheader", "--format=%n %t").split("\n")[:2] == ["one idle", "two idle"])

    def _prepare(self, machine, name):
        own = self.folder / name
        for folder in (own, own / "spool", own / "pmix"):
            folder.mkdir(mode=0o755)
        (own / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder))
        (own / "mpi.conf").write_text(f"PMIxCliTmpDirBase={own}/pmix\n")
        subprocess.run(self.machines.on(machine, "mkdir", "-p", "/run/munge"), check=True)

    def variables(self, machine):
        return os.environ | {"SLURM_CONF": str(self.folder / NAMES[machine] / "slurm.conf")}

    def _daemon(self, machine, *line):
        with open(self.folder / NAMES[machine] / f"{line[0]}.log", "w") as log:
            self.daemons.append(subprocess.Popen(self.machines.on(machine, *line), env=self.variables(machine), stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _wait(self, is_so):
        if not wait_until(is_so, STARTS_WITHIN_S):
            logs = "\n".join(f"{log}: {log.read_text()[-2000:]}" for log in self.folder.glob("*/*.log"))
            raise AssertionError(f"Slurm has not started within {STARTS_WITHIN_S} s\n{logs}")

    def _ask(self, *line):
        return subprocess.run(self.machines.on(0, *line), env=self.variables(0), capture_output=True, text=True).stdout

    def srun(self, *line, user=None, **variables):
        """A job of four ranks on both machines; no secret is anywhere."""
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        return self.machines.start(0, *become, "env", "-u", "UNISONO_SECRET_FILE", "srun", "-N2", "-n4", *line, SLURM_CONF=str(self.folder / "one" / "slurm.conf"), **variables)

    def step_daemons(self, machine):
        """Of the job that runs: what started its ranks there."""
        listed = subprocess.run(["pgrep", "-x", "slurmstepd"], capture_output=True, text=True).stdout.split()
        of_machine = network_of(self.machines.holders[machine].pid)
        return [int(pid) for pid in listed if network_of(pid) == of_machine]

    def close(self):
        if len(self.daemons) == 5:
            self._ask("scancel", "--user=root", "--signal=KILL", "--full")
            self._ask("scancel", "--state=RUNNING")
            wait_until(lambda: not self._ask("squeue", "--noheader").strip(), STARTS_WITHIN_S)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
