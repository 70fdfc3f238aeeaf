"""The exceptions: one for each code of the library, all under Error. `peer` is the rank to blame, or None."""
import builtins


class Error(Exception):
    """Anything that goes wrong in Unisono."""

    peer = None


class ArgumentError(Error, ValueError):
    """This rank's arguments are wrong. Nothing was moved and the group is usable; in a collective the other ranks are told."""


class ArgumentTypeError(Error, TypeError):
    """As ArgumentError, where a type is wrong rather than a value."""


class PeerArgumentError(Error):
    """Another rank refused its part of this call. Nothing was moved and the group is usable."""


class MismatchError(Error):
    """Ranks made different calls. No output was written and the group is usable."""


class PeerLostError(Error):
    """A member died or left. The group is broken."""


class TimeoutError(Error, builtins.TimeoutError):
    """The deadline passed. The group is broken, except where only wait(timeout) expired."""


class RevokedError(Error):
    """Somebody aborted, was interrupted, or broke the group."""


class InitError(Error):
    """Joining failed."""


class AuthError(Error):
    """Joining failed: somebody is not who they should be."""


class VersionError(Error):
    """Joining failed: another rank has another version."""


class ResourceError(Error):
    """Descriptors, threads or shared memory ran out."""


class MemoryError(ResourceError, builtins.MemoryError):
    """Memory ran out."""


class ProtocolError(Error):
    """Bytes that cannot be. The group is broken."""


class CorruptionError(Error):
    """A checksum does not match. The group is broken."""


class StateError(Error, RuntimeError):
    """Use before init_process_group(), after destroy_process_group(), or in a forked child."""


class StoreLostError(Error):
    """The store is gone; running groups go on."""


class InternalError(Error):
    """A mistake in Unisono itself; please report it."""
