"""Collectives on Python objects: each becomes bytes, by the codec or, where asked for by name, by pickle.

Each is two calls: how many bytes, and the bytes. What goes wrong on one rank before a call, with its arguments or for want of
memory, is told to the others in that call, so that nobody waits.
"""
from __future__ import annotations

import array
import contextlib

from unisono import _codec, _core, _errors


@contextlib.contextmanager
def _checking(kind, group):
    """Before a call: reads arguments, or makes room. An error in it refuses the call of this kind that the others make."""
    try:
        yield
    except MemoryError as error:
        _tell(kind, "it has no memory for the objects", group)
        raise _errors.MemoryError(f"there is no memory for the objects: {error}") from None
    except _errors.Error as error:
        _core.refuse(kind, str(error), isinstance(error, TypeError), group)
    except Exception as error:  # pickle's, or what a list of the user's raises
        _core.refuse(kind, f"the object cannot be encoded: {type(error).__name__}: {error}", True, group)
    except BaseException as error:  # no fault of the arguments: KeyboardInterrupt
        _tell(kind, f"it was interrupted by {type(error).__name__}", group)
        raise


def _tell(kind, why, group):
    with contextlib.suppress(_errors.Error):
        _core.refuse(kind, why, False, group)


def _pickles(allow_pickle):
    return _core.flag(allow_pickle, "allow_pickle")


def _to_bytes(value, allow_pickle):
    return _codec.encode(value, allow_pickle)


def _from_bytes(data, allow_pickle):
    return _codec.decode(memoryview(data), allow_pickle)


def _from_parts(parts, allow_pickle):
    """Each rank's object; the bytes go as soon as they are read."""
    objects = []
    for rank in range(len(parts)):
        part, parts[rank] = parts[rank], None
        objects.append(_from_bytes(part, allow_pickle))
    return objects


def _room(size):
    return bytearray(size)


def _number(value=0):
    """A whole number of 64 bits that calls can read and write; `_number()[0]` is its value."""
    return array.array("q", [value])


def _sizes(size, group):
    """How many bytes each rank gives."""
    with _checking("all_gather", group):
        mine, sizes = _number(size), array.array("q", [0]) * _core.get_world_size(group)
    _core.all_gather_into_tensor(sizes, mine, group, False)
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
        allow_pickle = _pickles(allow_pickle)
        mine = _to_bytes(obj, allow_pickle)
    sizes = _sizes(len(mine), group)
    with _checking("all_gather", group):
        parts = [_room(size) for size in sizes]
    _core.all_gather(parts, mine, group, False)
    object_list[:] = _from_parts(parts, allow_pickle)


def gather_object(obj, object_gather_list: list | None = None, dst: int | None = None, group=None, group_dst: int | None = None,
                  *, allow_pickle: bool = False) -> None:
    """Element i of `dst`'s list becomes rank i's object; the others give no list. The objects: see all_gather_object.

    >>> objects = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    >>> dist.gather_object({"rank": dist.get_rank()}, objects, dst=0)
    >>> objects
    [{'rank': 0}]
    """
    if _is_outside(group):
        return
    with _checking("all_gather", group):
        root, size = _root(dst, group, group_dst, "dst"), _core.get_world_size(group)
        takes = _core.get_rank(group) == root
        if takes:
            _check_list(object_gather_list, "object_gather_list", size)
        elif object_gather_list:
            raise _errors.ArgumentError("object_gather_list is given on the destination rank only, and this is another")
        allow_pickle = _pickles(allow_pickle)
        mine = _to_bytes(obj, allow_pickle)
    sizes = _sizes(len(mine), group)
    with _checking("all_to_all", group):
        parts = [_room(size) for size in sizes] if takes else _nothings(group)
        inputs = _only(mine, root, group)
    _core.all_to_all(parts, inputs, group, False)
    if takes:
        object_gather_list[:] = _from_parts(parts, allow_pickle)


def scatter_object_list(scatter_object_output_list: list, scatter_object_input_list: list | None = None, src: int | None = None,
                        group=None, group_src: int | None = None, *, allow_pickle: bool = False) -> None:
    """The first element of the output list becomes element r of `src`'s input list. The objects: see all_gather_object.

    >>> output = [None]
    >>> dist.scatter_object_list(output, [f"for rank {rank}" for rank in range(dist.get_world_size())], src=0)
    >>> output
    ['for rank 0']
    """
    if _is_outside(group):
        return
    with _checking("scatter", group):
        allow_pickle = _pickles(allow_pickle)
        root, size = _root(src, group, group_src, "src"), _core.get_world_size(group)
        gives = _core.get_rank(group) == root
        _check_list(scatter_object_output_list, "scatter_object_output_list")
        if not scatter_object_output_list:
            raise _errors.ArgumentError("scatter_object_output_list is empty; its first element takes the object")
        if gives:
            _check_list(scatter_object_input_list, "scatter_object_input_list", size)
        parts = [_to_bytes(obj, allow_pickle) for obj in scatter_object_input_list] if gives else _nothings(group)
        mine = _number()
        sizes = [_number(len(part)) for part in parts] if gives else None
    _core.scatter(mine, sizes, None, group, False, root)
    with _checking("all_to_all", group):
        outputs = _only(_room(mine[0]), root, group)
    _core.all_to_all(outputs, parts, group, False)
    scatter_object_output_list[0] = _from_bytes(outputs[root], allow_pickle)


def broadcast_object_list(object_list: list, src: int | None = None, group=None, device=None, group_src: int | None = None, *,
                          allow_pickle: bool = False) -> None:
    """`src`'s objects in everybody's list, which must be as long. The objects: see all_gather_object.

    >>> objects = ["settings", {"depth": 3}] if dist.get_rank() == 0 else [None, None]
    >>> dist.broadcast_object_list(objects, src=0)
    >>> objects
    ['settings', {'depth': 3}]
    """
    if _is_outside(group):
        return
    with _checking("broadcast", group):
        allow_pickle = _pickles(allow_pickle)
        root = _root(src, group, group_src, "src")
        gives = _core.get_rank(group) == root
        _check_list(object_list, "object_list")
        data = _to_bytes(object_list, allow_pickle) if gives else None
        size = _number(len(data) if gives else 0)
    _core.broadcast(size, None, group, False, root)
    with _checking("broadcast", group):
        data = data if gives else _room(size[0])
    _core.broadcast(data, None, group, False, root)
    if not gives:
        object_list[:] = _as_many(object_list, _from_bytes(data, allow_pickle), "the source rank has")


_REFUSED = -1  # in the place of a size: the sender could not encode its objects


def send_object_list(object_list: list, dst: int | None = None, group=None, device=None, group_dst: int | None = None,
                     use_batch: bool = False, *, allow_pickle: bool = False) -> None:
    """Sends the objects to `dst`, which calls recv_object_list(). The objects: see all_gather_object. `device` and `use_batch`
    are taken and ignored.

    >>> if dist.get_rank() == 0:  # of two ranks
    ...     dist.send_object_list(["loss", 1.5], dst=1)
    ... elif dist.recv_object_list(objects := [None, None], src=0) == 0:
    ...     assert objects == ["loss", 1.5]
    """
    if _is_outside(group):
        return
    try:
        _check_list(object_list, "object_list")
        data = _to_bytes(object_list, _pickles(allow_pickle))
    except BaseException:
        _core.send(_number(_REFUSED), dst, group, 0, group_dst)
        raise
    _core.send(_number(len(data)), dst, group, 0, group_dst)
    _core.send(data, dst, group, 0, group_dst)


def recv_object_list(object_list: list, src: int | None = None, group=None, device=None, group_src: int | None = None,
                     use_batch: bool = False, *, allow_pickle: bool = False) -> int:
    """Receives what send_object_list() sent, from `src` or from any rank; returns who sent it. `device` and `use_batch` are
    taken and ignored.

    >>> if dist.get_rank() == 0:  # of two ranks
    ...     dist.send_object_list(["loss", 1.5], dst=1)
    ... elif dist.recv_object_list(objects := [None, None]) == 0:
    ...     assert objects == ["loss", 1.5]
    """
    if _is_outside(group):
        return -1
    _check_list(object_list, "object_list")
    allow_pickle = _pickles(allow_pickle)
    size = _number()
    sender = _core.recv(size, src, group, 0, group_src)
    if size[0] == _REFUSED:
        raise _errors.PeerArgumentError(f"rank {sender} could not encode the objects that it was about to send")
    data = _room(size[0])
    _core.recv(data, sender, group, 0, None)
    object_list[:] = _as_many(object_list, _from_bytes(data, allow_pickle), f"rank {sender} sent")
    return sender


def _as_many(object_list, objects, who):
    """The objects, which are a list as long as the one that takes them."""
    if not isinstance(objects, list):
        raise _errors.ProtocolError("what was received is no list of objects")
    if len(objects) != len(object_list):
        raise _errors.MismatchError(f"object_list has {len(object_list)} elements here and {who} {len(objects)}")
    return objects


def _root(root, group, group_root, name):
    """As a rank of the group; its first where neither is given."""
    if root is not None and group_root is not None:
        raise _errors.ArgumentError(f"{name} and group_{name} are both given; give one of them")
    if group_root is not None:
        _core.get_global_rank(group, _core.whole(group_root, f"group_{name}"))  # an error where there is none
        return group_root
    return _core.get_group_rank(group, _core.whole(0 if root is None else root, name))


def _nothings(group):
    return [bytearray() for _ in range(_core.get_world_size(group))]


def _only(data, root, group):
    parts = _nothings(group)
    parts[root] = data
    return parts
