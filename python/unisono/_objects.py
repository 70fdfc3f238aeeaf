"""Collectives on Python objects: each becomes bytes, by the codec or, where asked for by name, by pickle."""
from unisono import _codec, _core, _errors


def _numpy():
    import numpy
    return numpy


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


def all_gather_object(object_list, obj, group=None, *, allow_pickle=False):
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
    if len(object_list) != _core.get_world_size(group):
        raise _errors.ArgumentError(f"object_list has {len(object_list)} elements; the group has {_core.get_world_size(group)} ranks")
    mine = _to_bytes(obj, allow_pickle)
    parts = [_numpy().empty(size, dtype="uint8") for size in _sizes(mine.size, group)]
    _core.all_gather(parts, mine, group, False)
    object_list[:] = [_from_bytes(part, allow_pickle) for part in parts]


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None, *, allow_pickle=False):
    """Element i of `dst`'s list becomes rank i's object. The objects: see all_gather_object."""
    if _is_outside(group):
        return
    root = _root(dst, group, group_dst, "dst")
    mine = _to_bytes(obj, allow_pickle)
    sizes = _sizes(mine.size, group)
    if _core.get_rank(group) != root:
        _core.all_to_all(_nothings(group), _only(mine, root, group), group, False)
        return
    parts = [_numpy().empty(size, dtype="uint8") for size in sizes]
    _core.all_to_all(parts, _only(mine, root, group), group, False)
    if object_gather_list is None:
        raise _errors.ArgumentError("object_gather_list must be given on the destination rank, and this is it")
    object_gather_list[:] = [_from_bytes(part, allow_pickle) for part in parts]


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None, *,
                        allow_pickle=False):
    """The first element of the output list becomes element r of `src`'s input list. The objects: see all_gather_object."""
    if _is_outside(group):
        return
    root, size = _root(src, group, group_src, "src"), _core.get_world_size(group)
    gives = _core.get_rank(group) == root
    if gives and len(scatter_object_input_list or ()) != size:
        raise _errors.ArgumentError(f"scatter_object_input_list must have {size} elements on the source rank, and this is it")
    parts = [_to_bytes(obj, allow_pickle) for obj in scatter_object_input_list] if gives else _nothings(group)
    numpy = _numpy()
    mine = numpy.empty(1, dtype="int64")
    sizes = [numpy.array([part.size], dtype="int64") for part in parts] if gives else None
    _core.scatter(mine, sizes, None, group, False, root)
    outputs = _nothings(group)
    outputs[root] = numpy.empty(int(mine[0]), dtype="uint8")
    _core.all_to_all(outputs, parts, group, False)
    scatter_object_output_list[0] = _from_bytes(outputs[root], allow_pickle)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None, *, allow_pickle=False):
    """`src`'s objects in everybody's list, which must be as long. The objects: see all_gather_object."""
    if _is_outside(group):
        return
    root = _root(src, group, group_src, "src")
    numpy = _numpy()
    gives = _core.get_rank(group) == root
    data = _to_bytes(list(object_list), allow_pickle) if gives else None
    size = numpy.array([data.size if gives else 0], dtype="int64")
    _core.broadcast(size, None, group, False, root)
    if not gives:
        data = numpy.empty(int(size[0]), dtype="uint8")
    _core.broadcast(data if not gives else data.copy(), None, group, False, root)
    if not gives:
        objects = _from_bytes(data, allow_pickle)
        if len(objects) != len(object_list):
            raise _errors.MismatchError(f"object_list has {len(object_list)} elements here and {len(objects)} on the source rank")
        object_list[:] = objects


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False, *, allow_pickle=False):
    """Sends the objects to `dst`, which calls recv_object_list(). The objects: see all_gather_object."""
    if _is_outside(group):
        return
    data = _to_bytes(list(object_list), allow_pickle)
    _core.send(_numpy().array([data.size], dtype="int64"), dst, group, 0, group_dst)
    _core.send(data, dst, group, 0, group_dst)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False, *, allow_pickle=False):
    """Receives what send_object_list() sent, from `src` or from any rank; returns who sent it."""
    if _is_outside(group):
        return -1
    numpy = _numpy()
    size = numpy.empty(1, dtype="int64")
    sender = _core.recv(size, src, group, 0, group_src)
    data = numpy.empty(int(size[0]), dtype="uint8")
    _core.recv(data, sender, group, 0, None)
    objects = _from_bytes(data, allow_pickle)
    if len(objects) != len(object_list):
        raise _errors.MismatchError(f"object_list has {len(object_list)} elements here and rank {sender} sent {len(objects)}")
    object_list[:] = objects
    return sender


def _root(root, group, group_root, name):
    """As a rank of the group."""
    if root is not None and group_root is not None:
        raise _errors.ArgumentError(f"{name} and group_{name} are both given; give one of them")
    if group_root is not None:
        return group_root
    return _core.get_group_rank(group, 0 if root is None else root) if root is not None or group is not None else 0


def _nothings(group):
    return [_numpy().empty(0, dtype="uint8") for _ in range(_core.get_world_size(group))]


def _only(data, root, group):
    parts = _nothings(group)
    parts[root] = data
    return parts
