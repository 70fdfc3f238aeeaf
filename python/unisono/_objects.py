"""Collectives on Python objects: each becomes bytes, by the codec or, where asked for by name, by pickle.

What is wrong with one rank's arguments is told to the others in the first of the calls that follow, so that nobody waits.
"""
from __future__ import annotations

import contextlib

from unisono import _codec, _core, _errors


def _numpy():
    import numpy
    return numpy


@contextlib.contextmanager
def _checking(kind, group):
    """Reads the arguments of a collective; an error in it refuses the call of this kind that the others make."""
    try:
        yield
    except _errors.Error as error:
        _core.refuse(kind, str(error), isinstance(error, TypeError), group)
    except Exception as error:  # pickle's, or what a list of the user's raises
        _core.refuse(kind, f"the object cannot be encoded: {type(error).__name__}: {error}", True, group)


def _to_bytes(value, allow_pickle):
    return _numpy().frombuffer(_codec.encode(value, allow_pickle), dtype="uint8")


def _from_bytes(array, allow_pickle):
    return _codec.decode(array.tobytes(), allow_pickle)


def _sizes(size, group):
    """How many bytes each rank gives."""
    numpy = _numpy()
    sizes = numpy.empty(_core.get_world_size(group), dtype="int64")
    _core.all_gather_into_tensor(sizes, numpy.array([size], dtype="int64"), group, False)
    return sizes


def _is_outside(group):
    return _core.get_rank(group) < 0


def _check_list(value, name, length=None):
    if not isinstance(value, list):
        raise _errors.ArgumentTypeError(f"{name} is a {type(value).__name__}; give a list")
    if length is not None and len(value) != length:
        raise _errors.ArgumentError(f"{name} has {len(value)} elements; the group has {length} ranks")


def all_gather_object(object_list: list, obj, group=None, *, allow_pickle: bool = False) -> None:
    """Element i of `object_list` becomes rank i's object.

    Objects are None, numbers, strings, bytes, lists, tuples, dicts, sets and NumPy arrays of those; anything else only with
    `allow_pickle=True`, on all ranks: unpickling runs code that the sender chooses.

    >>> import unisono.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> objects = [None]
    >>> dist.all_gather_object(objects, {"rank": 0, "loss": 1.5})
    >>> objects
    [{'rank': 0, 'loss': 1.5}]
    >>> dist.destroy_process_group()
    """
    if _is_outside(group):
        return
    with _checking("all_gather", group):
        _check_list(object_list, "object_list", _core.get_world_size(group))
        mine = _to_bytes(obj, allow_pickle)
    parts = [_numpy().empty(size, dtype="uint8") for size in _sizes(mine.size, group)]
    _core.all_gather(parts, mine, group, False)
    object_list[:] = [_from_bytes(part, allow_pickle) for part in parts]


def gather_object(obj, object_gather_list: list | None = None, dst: int | None = None, group=None, group_dst: int | None = None,
                  *, allow_pickle: bool = False) -> None:
    """Element i of `dst`'s list becomes rank i's object; the others give no list. The objects: see all_gather_object."""
    if _is_outside(group):
        return
    with _checking("all_gather", group):
        root, size = _root(dst, group, group_dst, "dst"), _core.get_world_size(group)
        takes = _core.get_rank(group) == root
        if takes:
            _check_list(object_gather_list, "object_gather_list", size)
        elif object_gather_list:
            raise _errors.ArgumentError("object_gather_list is given on the destination rank only, and this is another")
        mine = _to_bytes(obj, allow_pickle)
    sizes = _sizes(mine.size, group)
    parts = [_numpy().empty(size, dtype="uint8") for size in sizes] if takes else _nothings(group)
    _core.all_to_all(parts, _only(mine, root, group), group, False)
    if takes:
        object_gather_list[:] = [_from_bytes(part, allow_pickle) for part in parts]


def scatter_object_list(scatter_object_output_list: list, scatter_object_input_list: list | None = None, src: int | None = None,
                        group=None, group_src: int | None = None, *, allow_pickle: bool = False) -> None:
    """The first element of the output list becomes element r of `src`'s input list. The objects: see all_gather_object."""
    if _is_outside(group):
        return
    numpy = _numpy()
    with _checking("scatter", group):
        root, size = _root(src, group, group_src, "src"), _core.get_world_size(group)
        gives = _core.get_rank(group) == root
        _check_list(scatter_object_output_list, "scatter_object_output_list")
        if not scatter_object_output_list:
            raise _errors.ArgumentError("scatter_object_output_list is empty; its first element takes the object")
        if gives:
            _check_list(scatter_object_input_list, "scatter_object_input_list", size)
        parts = [_to_bytes(obj, allow_pickle) for obj in scatter_object_input_list] if gives else _nothings(group)
    mine = numpy.empty(1, dtype="int64")
    sizes = [numpy.array([part.size], dtype="int64") for part in parts] if gives else None
    _core.scatter(mine, sizes, None, group, False, root)
    outputs = _nothings(group)
    outputs[root] = numpy.empty(int(mine[0]), dtype="uint8")
    _core.all_to_all(outputs, parts, group, False)
    scatter_object_output_list[0] = _from_bytes(outputs[root], allow_pickle)


def broadcast_object_list(object_list: list, src: int | None = None, group=None, device=None, group_src: int | None = None, *,
                          allow_pickle: bool = False) -> None:
    """`src`'s objects in everybody's list, which must be as long. The objects: see all_gather_object."""
    if _is_outside(group):
        return
    numpy = _numpy()
    with _checking("broadcast", group):
        root = _root(src, group, group_src, "src")
        gives = _core.get_rank(group) == root
        _check_list(object_list, "object_list")
        data = _to_bytes(object_list, allow_pickle) if gives else None
    size = numpy.array([data.size if gives else 0], dtype="int64")
    _core.broadcast(size, None, group, False, root)
    if not gives:
        data = numpy.empty(int(size[0]), dtype="uint8")
    _core.broadcast(data, None, group, False, root)
    if not gives:
        objects = _from_bytes(data, allow_pickle)
        if len(objects) != len(object_list):
            raise _errors.MismatchError(f"object_list has {len(object_list)} elements here and {len(objects)} on the source rank")
        object_list[:] = objects


_REFUSED = -1  # in the place of a size: the sender could not encode its objects


def send_object_list(object_list: list, dst: int | None = None, group=None, device=None, group_dst: int | None = None,
                     use_batch: bool = False, *, allow_pickle: bool = False) -> None:
    """Sends the objects to `dst`, which calls recv_object_list(). The objects: see all_gather_object. `device` and `use_batch`
    are taken and ignored."""
    if _is_outside(group):
        return
    numpy = _numpy()
    try:
        _check_list(object_list, "object_list")
        data = _to_bytes(object_list, allow_pickle)
    except Exception:
        _core.send(numpy.array([_REFUSED], dtype="int64"), dst, group, 0, group_dst)
        raise
    _core.send(numpy.array([data.size], dtype="int64"), dst, group, 0, group_dst)
    _core.send(data, dst, group, 0, group_dst)


def recv_object_list(object_list: list, src: int | None = None, group=None, device=None, group_src: int | None = None,
                     use_batch: bool = False, *, allow_pickle: bool = False) -> int:
    """Receives what send_object_list() sent, from `src` or from any rank; returns who sent it. `device` and `use_batch` are
    taken and ignored."""
    if _is_outside(group):
        return -1
    _check_list(object_list, "object_list")
    numpy = _numpy()
    size = numpy.empty(1, dtype="int64")
    sender = _core.recv(size, src, group, 0, group_src)
    if size[0] == _REFUSED:
        raise _errors.PeerArgumentError(f"rank {sender} could not encode the objects that it was about to send")
    data = numpy.empty(int(size[0]), dtype="uint8")
    _core.recv(data, sender, group, 0, None)
    objects = _from_bytes(data, allow_pickle)
    if len(objects) != len(object_list):
        raise _errors.MismatchError(f"object_list has {len(object_list)} elements here and rank {sender} sent {len(objects)}")
    object_list[:] = objects
    return sender


def _root(root, group, group_root, name):
    """As a rank of the group; its first where neither is given."""
    if root is not None and group_root is not None:
        raise _errors.ArgumentError(f"{name} and group_{name} are both given; give one of them")
    if group_root is not None:
        _core.get_global_rank(group, _core.whole(group_root, f"group_{name}"))  # an error where there is none
        return group_root
    return _core.get_group_rank(group, _core.whole(0 if root is None else root, name))


def _nothings(group):
    return [_numpy().empty(0, dtype="uint8") for _ in range(_core.get_world_size(group))]


def _only(data, root, group):
    parts = _nothings(group)
    parts[root] = data
    return parts
