"""A real sshd on each of two machines, for one user with one key, and a client that knows it."""
import shutil
import subprocess

from waiting import wait_until

PROGRAMS = ("ssh", "ssh-keygen")
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
STARTS_WITHIN_S = 20
SERVER = """Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
PidFile none
"""
CLIENT = """Host one
  HostName 10.77.0.1
Host two
  HostName 10.77.0.2
Host nowhere
  HostName 10.77.0.9
  ConnectTimeout 3
Host stranger
  HostName 10.77.0.2
  IdentityFile {folder}/other_key
Host one two nowhere
  IdentityFile {folder}/key
Host *
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile none
"""


class Sshd:
    def __init__(self, machines, folder):
        self.machines, self.folder = machines, folder
        folder.mkdir()
        for key in ("host_key", "key", "other_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        (folder / "known").write_text("10.77.0.1,10.77.0.2 " + (folder / "host_key.pub").read_text())
        (folder / "server").write_text(SERVER.format(folder=folder))
        (folder / "client").write_text(CLIENT.format(folder=folder))
        self.daemons = []
        for machine in range(2):
            subprocess.run(machines.on(machine, "mkdir", "-p", "/run/sshd"), check=True)
            self.daemons.append(subprocess.Popen(machines.on(machine, SSHD, "-D", "-f", folder / "server"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for host in ("one", "two"):
            assert wait_until(lambda: subprocess.run(machines.on(0, *self.client(), host, "true"), stdin=subprocess.DEVNULL, capture_output=True).returncode == 0, STARTS_WITHIN_S)

    def client(self):
        return ["ssh", "-F", str(self.folder / "client")]

    def close(self):
        for daemon in self.daemons:
            daemon.terminate()
            daemon.wait()
