"""unisono.distributed beside the real torch.distributed, name by name and parameter by parameter.

Every difference stands in one of the tables with its reason. A difference without a reason fails, and so does a reason without a
difference."""
import copy
import inspect
import pickle
import re

import pytest

import unisono
import unisono.distributed as ours

theirs = pytest.importorskip("torch.distributed")

INTERNALS = "an argument of methods of c10d's ProcessGroup, which are no public functions"
DDP = "a part of DistributedDataParallel, which lives in torch; it runs on unisono.torch's backend"
OTHER_ERRORS = "errors of c10d; ours are the classes of unisono, each also a ValueError, TypeError, TimeoutError or RuntimeError"
DEBUG = "sets how much c10d checks and logs; Unisono always checks that ranks make the same call"
MESH = "lives in torch and needs a backend of c10d; it runs on unisono.torch's"
MODULE = "a module or a library that torch.distributed happens to import"
RENDEZVOUS = "extends how torchrun's agents find each other; Unisono joins by launcher, file or store"
QUEUES = "unisono::distributed::Store keeps one value for each key, and no queues"
METHODS = "c10d's own interface to a backend; here the functions take a group instead"

MISSING = {  # in torch.distributed and not here
    ("AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions", "BroadcastOptions", "GatherOptions",
     "ReduceOptions", "ReduceScatterOptions", "ScatterOptions"): INTERNALS,
    ("BuiltinCommHookType", "GradBucket", "Logger", "Reducer"): DDP,
    ("DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"): OTHER_ERRORS,
    ("DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"): DEBUG,
    ("DeviceMesh", "init_device_mesh", "device_mesh"): MESH,
    ("algorithms", "autograd", "c10d_logger", "config", "constants", "distributed_c10d", "log", "logging", "logging_handlers",
     "remote_device", "rpc", "sys", "timedelta", "torch", "traceback", "typing", "utils"): MODULE,
    ("register_rendezvous_handler", "rendezvous"): RENDEZVOUS,
    ("BackendConfig",): "describes several backends in one group, one for each device; there is one backend, for the CPU",
    ("GroupName", "RankType"): "aliases of str and int for annotations",
    ("ProcessGroupGloo",): "another backend's class",
    ("breakpoint",): "a debugger for one rank while the others wait in c10d; pdb and UNISONO_TIMEOUT do it here",
    ("default_pg_timeout",): "the default deadline is a setting, UNISONO_TIMEOUT, and no constant",
    ("get_pg_count",): "counts the groups of c10d's registry, which numbers its collectives by it; ours have names",
    ("record_comm",): "marks a part of a program for torch's profiler",
    ("reduce_op",): "deprecated by torch in favour of ReduceOp",
}

ADDED = {  # here and not in torch.distributed
    ("abort", "agree", "failed_ranks"): "after a fault: all ranks end their calls, agree on what was finished, and see who is gone",
    ("exscan", "scan"): "prefix reductions, which torch has not",
    ("all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"): "torch has them behind a private context manager",
}

PICKLE = "the codec is closed by default; pickle runs code that the sender chooses, so it is asked for by name"
PARAMETERS = {  # (function, parameter): why only one of the two has it
    ("init_process_group", "_ranks"): "private to torch's split of groups",
    ("new_group", "reproducible"): "whether bits depend on the inputs and the number of ranks alone",
    **{(name, "allow_pickle"): PICKLE for name in ("all_gather_object", "broadcast_object_list", "gather_object",
                                                   "recv_object_list",
                                                  "scatter_object_list", "send_object_list")},
}
DEFAULTS = {}  # (function, parameter): why the defaults differ

STORES = ("Store", "FileStore", "HashStore", "PrefixStore", "TCPStore")
MEMBERS = {  # (class, name): why only one of the two has it
    **{("Work", name): "needs a stream of a GPU" for name in ("block_current_stream",)},
    **{("Work", name): "a torch.futures.Future; unisono.torch's backend has it" for name in ("get_future", "get_future_result")},
    **{("Work", name): "hands the object over to TorchScript" for name in ("boxed", "unbox")},
    **{(store, name): QUEUES for store in STORES for name in ("queue_len", "queue_pop", "queue_push")},
    **{(store, "list_keys"): "unisono::distributed::Store does not list its keys" for store in STORES},
    **{(store, "barrier"): "a collective over a store; barrier() is the collective" for store in STORES},
    ("TCPStore", "libuvBackend"): "tells which of c10d's two servers runs; there is one here",
    ("ReduceOp", "RedOpType"): "the enumeration behind torch's ReduceOp; ours are ReduceOp objects themselves",
    ("ReduceOp", "op"): "tells torch's enumeration from its wrapper", ("ReduceOp", "factor"): "PREMUL_SUM(factor) is called here",
    ("ProcessGroup", "is_member"): "whether this rank is in the group: torch has only the constant NON_GROUP_MEMBER",
    **{("ProcessGroup", name): METHODS for name in (
        "BackendType", "CUSTOM", "GLOO", "MPI", "NCCL", "UCC", "UNDEFINED", "XCCL", "abort", "all_gather_single",
        "all_gather_single_coalesced", "all_to_all_single", "allgather", "allgather_coalesced", "allgather_into_tensor_coalesced",
        "allreduce", "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "bound_device_id", "boxed", "broadcast",
        "gather",
        "get_group_store", "group_desc", "group_name", "merge_remote_group", "monitored_barrier", "recv", "recv_anysource",
        "reduce",
        "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced",
        "scatter",
        "send", "set_timeout", "shutdown", "split_group", "unbox", "use_pg_for_symm_mem_rendezvous")},
    ("Backend", "UNISONO"): "the one backend that there is",
    **{("Backend", name): "another backend's name" for name in ("FAKE", "GLOO", "MPI", "NCCL", "UCC", "XCCL")},
    **{("Backend", name): "torch's registry of backends" for name in ("backend_capability", "backend_list", "backend_type_map",
                                                                     "default_device_backend_map", "register_backend")},
}
CLASSES = ["Backend", "FileStore", "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "ReduceOp", "Store",
           "TCPStore", "Work", "group"]


def flat(table):
    return {name: reason for names, reason in table.items() for name in names}


def public(module):
    return {name for name in dir(module) if not name.startswith("_")}


def their_names():
    from torch.distributed import distributed_c10d
    return public(theirs) | set(distributed_c10d.__all__)


def compare(found, table):
    reasons = dict(table)
    assert sorted(map(str, found - set(reasons))) == [], "these differ and no reason is given"
    assert sorted(map(str, set(reasons) - found)) == [], "these have a reason and do not differ"


def test_names():
    compare(their_names() - set(ours.__all__), flat(MISSING))
    compare(set(ours.__all__) - their_names(), flat(ADDED))
    for name in ours.__all__:
        getattr(ours, name)


def functions():
    for name in ours.__all__:
        mine, other = getattr(ours, name), getattr(theirs, name, None)
        if inspect.isfunction(mine) and inspect.isfunction(other) or name == "P2POp":
            yield name, inspect.signature(mine).parameters, inspect.signature(other).parameters


def test_parameters():
    lacking, defaults, count = set(), set(), 0
    for name, mine, other in functions():
        lacking |= {(name, parameter) for parameter in set(mine) ^ set(other)}
        common = [parameter for parameter in mine if parameter in other]
        assert common == [parameter for parameter in other if parameter in mine], f"{name}: another order"
        for parameter in common:
            count += 1
            assert mine[parameter].kind == other[parameter].kind, (name, parameter)
            if not same_default(mine[parameter].default, other[parameter].default):
                defaults.add((name, parameter))
    compare(lacking, PARAMETERS)
    compare(defaults, DEFAULTS)
    assert count > 180


def same_default(mine, other):
    if isinstance(mine, ours.ReduceOp):
        return str(mine) == f"ReduceOp.{other.name}"
    return mine == other


def members(kind):
    of_str = set(dir(str)) if issubclass(kind, str) else set()
    metaclass = {name for name, value in vars(type(kind)).items() if isinstance(value, property)}  # GroupMember.WORLD
    return {name for name in set(dir(kind)) | metaclass if not name.startswith("_")} - of_str


def test_members():
    found = {(name, member) for name in CLASSES for member in members(getattr(ours, name)) ^ members(getattr(theirs, name))}
    found.add(("Backend", "UNISONO"))  # torch has it, too, where another test has imported unisono.torch
    compare(found, MEMBERS)


def parameters_of(method):
    """[(name, default)] of a bound method by the first line of its documentation; None where that says none."""
    signatures = getattr(method, "__nb_signature__", None)
    text = signatures[0][0] if signatures else (method.__doc__ or "").split("\n")[0]
    inside = re.search(r"\((.*)\)", text)
    if not inside or "*args" in inside[1]:
        return None
    flattened = re.sub(r"\[[^\[\]]*\]|\([^()]*\)", "", inside[1])
    return [re.sub(r":.*?(?==|$)", "", part).strip().split("=")[0].strip() for part in flattened.split(",")][1:]


def test_parameters_of_methods():
    """torch names few of them; those it names have the same name here, and there are as many."""
    different, count = set(), 0
    for name in ("Work", "Store", "FileStore", "PrefixStore", "HashStore", "TCPStore"):
        for member in members(getattr(ours, name)) & members(getattr(theirs, name)) | {"__init__"}:
            mine, other = (getattr(getattr(module, name), member) for module in (ours, theirs))
            if not callable(mine) or member == "__init__" and name in ("Work", "Store"):
                continue
            mine, other = parameters_of(mine), parameters_of(other)
            if mine is None or other is None:
                continue
            count += 1
            if len(mine) != len(other) or any(there != here for here, there in zip(mine, other) if not there.startswith("arg")):
                different.add((name, member))
    compare(different, {("TCPStore", "__init__"): "torch's last three are about c10d's own servers, of which it has several"})
    assert count > 40


@pytest.mark.parametrize("op", [getattr(ours.ReduceOp, name) for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR",
                                                                         "BXOR")] + [ours.ReduceOp.PREMUL_SUM(2.5)], ids=str)
def test_reductions_are_copied_and_pickled(op):
    assert copy.copy(op) == copy.deepcopy({"op": op})["op"] == pickle.loads(pickle.dumps(op)) == op


class OlderPremulSum:
    """As torch has it before 2.13, where the state alone has the factor."""

    op = "PREMUL_SUM"

    def __getstate__(self):
        return self.op, 4.0


def test_reductions_of_torch_are_taken():
    import numpy
    ours.init_process_group(rank=0, world_size=1)
    try:
        for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
            ours.all_reduce(numpy.ones(2), getattr(theirs.ReduceOp, name))
        ours.all_reduce(numpy.ones(2, dtype="int32"), theirs.ReduceOp.BXOR)
        ours.all_reduce(data := numpy.ones(2), theirs._make_nccl_premul_sum(3.0))
        assert data.tolist() == [3, 3]
        ours.all_reduce(data := numpy.ones(2), OlderPremulSum())
        assert data.tolist() == [4, 4]
    finally:
        ours.destroy_process_group()


def test_small_functions():
    assert ours.is_backend_available("unisono") and not ours.is_backend_available("gloo") and not ours.is_nccl_available()
    assert ours.get_default_backend_for_device("cpu") == "unisono" and ours.get_node_local_rank(fallback_rank=3) == 3
    assert [ours.supports_complex(op) for op in ("sum", "max", ours.ReduceOp.PRODUCT, theirs.ReduceOp.SUM, theirs.ReduceOp.MAX,
                                                 ours.ReduceOp.PREMUL_SUM(2.0))] == [True, False, True, True, False, True]
    with pytest.raises(unisono.ArgumentTypeError, match="op"):
        ours.supports_complex(3)
    assert ours.group.WORLD is None and ours.supports_complex(ours.ReduceOp.SUM) and not ours.is_torchelastic_launched()
    ours.init_process_group("unisono", rank=0, world_size=1)
    try:
        assert ours.group.WORLD.size() == ours.GroupMember.WORLD.size() == 1 and ours.group.WORLD.rank() == 0
        assert ours.get_backend() == ours.Backend.UNISONO and ours.get_backend_config() == "cpu:unisono"
        assert ours.get_node_local_rank() == 0 and ours.get_group_rank(ours.group.WORLD, 0) == 0
    finally:
        ours.destroy_process_group()
