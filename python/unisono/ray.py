"""Unisono as a backend of ray.util.collective.

    import unisono.ray                                  # registers it, in the driver and in every actor
    from ray.util import collective

    collective.create_collective_group(actors, world_size=4, ranks=[0, 1, 2, 3], backend="unisono")

or, in each actor, `collective.init_collective_group(4, rank, backend="unisono", group_name="all")`. Tensors are NumPy arrays, torch tensors, and whatever else
unisono.distributed takes. The first group of a process makes its world; later ones have to lie in its members, in any order.

Ranks meet through an actor of Ray's. On one machine nothing else is needed; on several the job's secret is (`unisono secret new`), in a file of every node.
"""
import asyncio

import ray
from ray.util.collective import register_collective_backend, types
from ray.util.collective.collective_group.base_collective_group import BaseGroup

import unisono.distributed as dist
from unisono._errors import StateError

__all__ = ["UnisonoGroup"]

NAME = "UNISONO"
PLACES = "unisono/places"  # in the store of a group: by rank, the world of who has it and its rank there
PATIENCE_S = 300  # until those who have not come are named
OPERATIONS = {types.ReduceOp.SUM: dist.ReduceOp.SUM, types.ReduceOp.PRODUCT: dist.ReduceOp.PRODUCT,
              types.ReduceOp.MIN: dist.ReduceOp.MIN, types.ReduceOp.MAX: dist.ReduceOp.MAX}


@ray.remote(num_cpus=0)
class _Keys:
    """The keys by which the ranks of one group meet. One method at a time, but those that wait."""

    def __init__(self):
        self.values, self.changed = {}, asyncio.Event()

    def _set(self, key, value):
        self.values[key] = value
        self.changed.set()
        self.changed = asyncio.Event()

    async def set(self, key, value):
        self._set(key, value)

    async def get(self, key):
        return self.values[key]

    async def check(self, keys):
        return all(key in self.values for key in keys)

    async def wait(self, keys, seconds):
        async def all_are_there():
            while not all(key in self.values for key in keys):
                await self.changed.wait()

        await asyncio.wait_for(all_are_there(), seconds)

    async def add(self, key, amount):
        self._set(key, str(int(self.values.get(key, b"0")) + amount).encode())
        return int(self.values[key])

    async def compare_set(self, key, expected, desired):
        if self.values.get(key, b"") == expected:
            self._set(key, desired)
        return self.values.get(key, expected)

    async def delete_key(self, key):
        return self.values.pop(key, None) is not None


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


_keys = {}  # by name of the group; kept, since an actor ends with those who know of it, and somebody may not have read yet what others have written


class _Store:
    """What unisono.distributed asks of a store, over an actor that all ranks of the group reach."""

    def __init__(self, group_name):
        if group_name not in _keys:
            _keys[group_name] = _Keys.options(name=f"unisono:{group_name}", get_if_exists=True).remote()
        self._keys = _keys[group_name]

    def set(self, key, value):
        ray.get(self._keys.set.remote(key, _bytes(value)))

    def get(self, key):
        return ray.get(self._keys.get.remote(key))

    def check(self, keys):
        return ray.get(self._keys.check.remote(list(keys)))

    def wait(self, keys, timeout):
        seconds = timeout.total_seconds() if hasattr(timeout, "total_seconds") else float(timeout)
        try:
            ray.get(self._keys.wait.remote(list(keys), seconds))
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise TimeoutError(f"{', '.join(keys)} did not come within {seconds:g} s") from error

    def add(self, key, amount):
        return ray.get(self._keys.add.remote(key, amount))

    def compare_set(self, key, expected, desired):
        return ray.get(self._keys.compare_set.remote(key, _bytes(expected), _bytes(desired)))

    def delete_key(self, key):
        return ray.get(self._keys.delete_key.remote(key))


def _places(store, world_size, rank):
    """By rank in the group, the world of each member and its rank there; ("", "-") of one that has none."""
    time = store.add(f"{PLACES}/times/{rank}", 1)  # that a group of this name is made
    store.set(f"{PLACES}/{time}/{rank}", f"{_worlds[-1]} {dist.get_rank()}" if dist.is_initialized() else " -")
    keys = [f"{PLACES}/{time}/{one}" for one in range(world_size)]
    store.wait(keys, PATIENCE_S)
    return [store.get(key).decode().rsplit(" ", 1) for key in keys]


_worlds = []  # the one that this process has joined: the group by which it did


class UnisonoGroup(BaseGroup):
    """One group of ray.util.collective."""

    def __init__(self, world_size, rank, group_name):
        super().__init__(world_size, rank, group_name)
        self._store = _Store(group_name)
        places = _places(self._store, world_size, rank)
        worlds = {world for world, _ in places}
        if len(worlds) > 1:
            raise StateError(f"the members of group {group_name!r} are in different worlds, or some in none: the first group of a process makes its world, so begin with one that has all of them")
        self._makes_world = worlds == {""}
        if self._makes_world:
            dist.init_process_group(store=self._store, rank=rank, world_size=world_size, timeout=PATIENCE_S)
            _worlds[:] = [group_name]
            self._group = dist.group.WORLD
        else:
            self._group = dist.new_group([int(place) for _, place in places])

    def destroy_group(self):
        """Leaves the group; the one that made the world leaves that, with all that lie in it."""
        _keys.pop(self.group_name, None)  # another of the same name may meet by another actor: this one ends with the rank that began it
        if self._makes_world:
            dist.destroy_process_group()
        elif dist.is_initialized():
            dist.destroy_process_group(self._group)

    @classmethod
    def backend(cls):
        return NAME

    @classmethod
    def check_backend_availability(cls):
        return True

    def allreduce(self, tensor, allreduce_options=types.AllReduceOptions()):
        dist.all_reduce(_one(tensor), OPERATIONS[allreduce_options.reduceOp], group=self._group)

    def barrier(self, barrier_options=types.BarrierOptions()):
        dist.barrier(group=self._group)

    def reduce(self, tensor, reduce_options=types.ReduceOptions()):
        dist.reduce(_one(tensor), group_dst=reduce_options.root_rank, op=OPERATIONS[reduce_options.reduceOp], group=self._group)

    def allgather(self, tensor_list, tensor, allgather_options=types.AllGatherOptions()):
        dist.all_gather(_one(tensor_list), _one(tensor), group=self._group)

    def broadcast(self, tensor, broadcast_options=types.BroadcastOptions()):
        dist.broadcast(_one(tensor), group_src=broadcast_options.root_rank, group=self._group)

    def reducescatter(self, tensor, tensor_list, reducescatter_options=types.ReduceScatterOptions()):
        dist.reduce_scatter(_one(tensor), _one(tensor_list), OPERATIONS[reducescatter_options.reduceOp], group=self._group)

    def send(self, tensor, send_options):
        dist.send(_one(tensor), group_dst=send_options.dst_rank, group=self._group)

    def recv(self, tensor, recv_options):
        dist.recv(_one(tensor), group_src=recv_options.src_rank, group=self._group)


def _one(tensors):
    """Ray has a list of one for each device of this process, and a CPU is one."""
    if len(tensors) != 1:
        raise StateError(f"unisono is one device, and was given {len(tensors)} tensors of one call: use the functions without _multigpu")
    return tensors[0]


register_collective_backend(NAME, UnisonoGroup)
