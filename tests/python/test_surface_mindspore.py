"""unisono.communication and unisono.comm_func beside MindSpore 2.10: its names and signatures, as its wheel has them.

tests/python/mindspore/test_surface.py compares the tables with MindSpore itself, where it is installed.

Every difference stands in a table with its reason; a difference without a reason fails, and a reason without a difference."""
import importlib
import inspect

import unisono
import unisono.comm_func as func
import unisono.communication as communication

WORLD = "group=WORLD"
COMM_FUNC = {  # mindspore/communication/comm_func.py, __all__
    "all_reduce": "tensor, op=sum, group=WORLD, async_op=False",
    "all_gather_into_tensor": "tensor, group=WORLD, async_op=False",
    "all_to_all_with_output_shape": "output_shape_list, input_tensor_list, group=None, async_op=False",
    "all_to_all_single_with_output_shape":
        "output_shape, tensor, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False",
    "barrier": WORLD,
    "broadcast": "tensor, src=0, group=WORLD",
    "gather_into_tensor": "tensor, dst=0, group=WORLD",
    "isend": "tensor, dst=0, group=WORLD, tag=0",
    "irecv": "tensor, src=0, group=WORLD, tag=0",
    "reduce_scatter_tensor": "tensor, op=sum, group=WORLD, async_op=False",
    "reduce": "tensor, dst, op=sum, group=WORLD",
    "scatter_tensor": "tensor, src=0, group=WORLD",
    "send": "tensor, dst=0, group=WORLD, tag=0",
    "recv": "tensor, src=0, group=WORLD, tag=0",
    "P2POp": "op, tensor, peer, group=None, tag=0, recv_dtype=None",
    "batch_isend_irecv": "p2p_op_list",
    "all_to_all_v_c": "output, input, send_count_matrix, group=None, async_op=False",
}
COMMUNICATION = {  # mindspore/communication/__init__.py, __all__; None: no function
    "GlobalComm": None, "HCCL_WORLD_COMM_GROUP": None, "NCCL_WORLD_COMM_GROUP": None, "MCCL_WORLD_COMM_GROUP": None,
    "init": "backend_name=None", "release": "", "get_rank": WORLD, "get_local_rank": WORLD, "get_group_size": WORLD,
    "get_local_rank_size": WORLD, "get_world_rank_from_group_rank": "group, group_rank_id",
    "get_group_rank_from_world_rank": "world_rank_id, group", "create_group": "group, rank_ids, options=None",
    "destroy_group": "group", "get_comm_name": WORLD, "get_process_group_ranks": WORLD,
}
MEMBERS = {"GlobalComm": ["BACKEND", "CHECK_ENVS", "INITED", "WORLD_COMM_GROUP"],
           "ReduceOp": ["AVG", "MAX", "MIN", "PROD", "SUM"],
           "CommHandle": ["get_comm_handle_ptr_str", "wait"]}

R24 = "None, as on the pages of MindSpore 2.4; None and the name mean the same group"
NAMES = {  # why only one of the two has it
    "get_comm_name": "the name of HCCL's communicator on an Ascend device",
    "CommHandle": "what an asynchronous call returns; MindSpore has it in the module and not in __all__",
    "GlobalComm of comm_func": "importable from both modules", "ReduceOp of comm_func": "MindSpore has it in mindspore.ops",
    "ReduceOp of communication": "MindSpore has it in mindspore.ops", "comm_func": "a module of the package there, listed here",
    "exscan": "prefix reductions, which MindSpore has not", "scan": "prefix reductions, which MindSpore has not",
}
SIGNATURES = {"all_gather_into_tensor": R24, "reduce_scatter_tensor": R24, "reduce": R24}
MEMBER_REASONS = {
    ("GlobalComm", "CHECK_ENVS"): "switches off a check of MindSpore's own environment variables",
    ("CommHandle", "get_comm_handle_ptr_str"): "the address of an object of MindSpore's runtime",
    ("CommHandle", "is_completed"): "an extension", ("CommHandle", "exception"): "an extension",
    ("ReduceOp", "BAND"): "an extension", ("ReduceOp", "BOR"): "an extension", ("ReduceOp", "BXOR"): "an extension",
}


def same(found, table):
    assert sorted(map(str, set(found) - set(table))) == [], "these differ and no reason is given"
    assert sorted(map(str, set(table) - set(found))) == [], "these have a reason and do not differ"


def text_of(function):
    def of(parameter):
        if parameter.default is parameter.empty:
            return parameter.name
        default = "WORLD" if parameter.default == "hccl_world_group" else parameter.default
        return f"{parameter.name}={default}"
    return ", ".join(of(parameter) for parameter in inspect.signature(function).parameters.values())


def test_names():
    found = set(COMMUNICATION) - set(communication.__all__) | set(COMM_FUNC) - set(func.__all__)
    shared = ("GlobalComm", "ReduceOp")
    found |= {name + " of comm_func" if name in shared else name for name in set(func.__all__) - set(COMM_FUNC)}
    found |= {name + " of communication" if name in shared else name for name in set(communication.__all__) - set(COMMUNICATION)}
    same(found, NAMES)


def test_signatures():
    different, count = set(), 0
    for module, table in ((func, COMM_FUNC), (communication, COMMUNICATION)):
        for name, signature in table.items():
            if signature is not None and hasattr(module, name):
                count += 1
                if text_of(getattr(module, name)) != signature:
                    different.add(name)
    same(different, SIGNATURES)
    assert count == len(COMM_FUNC) + len(COMMUNICATION) - 5


def test_members():
    found = set()
    for name, members in MEMBERS.items():
        kind = getattr(func, name)
        here = {member for member in [*dir(kind), "INITED"] if not member.startswith("_") and hasattr(kind, member)}
        found |= {(name, member) for member in here ^ set(members)}
    same(found, MEMBER_REASONS)


def test_imports_as_mindspore_has_them():
    from unisono.communication import GlobalComm, ReduceOp, init  # noqa: F401
    from unisono.communication.comm_func import all_reduce
    from unisono.communication.comm_func import GlobalComm as same_one
    from unisono.communication.comm_func import ReduceOp as same_op
    from unisono.communication.management import get_rank
    assert all_reduce is func.all_reduce and GlobalComm is same_one and ReduceOp is same_op and get_rank is communication.get_rank
    assert importlib.import_module("unisono.communication.comm_func") is func is communication.comm_func
    import unisono.communication.management
    assert unisono.communication.management.init is init
    assert ReduceOp.SUM == "sum" and ReduceOp.PROD == "prod"


def test_groups_by_name():
    communication.init()
    try:
        communication.init()  # a second time finds it there
        assert communication.GlobalComm.INITED and unisono.distributed.is_initialized()
        for name in (None, "hccl_world_group", "nccl_world_group", "mccl_world_group", communication.GlobalComm.WORLD_COMM_GROUP):
            assert (communication.get_rank(name), communication.get_group_size(name), communication.get_local_rank(name),
                    communication.get_local_rank_size(name), communication.get_process_group_ranks(name)) == (0, 1, 0, 1, [0])
        communication.create_group("mine", [0])
        assert communication.get_world_rank_from_group_rank("mine", 0) == 0
        assert communication.get_group_rank_from_world_rank(0, "mine") == 0
        communication.destroy_group("mine")
    finally:
        communication.release()
    assert not communication.GlobalComm.INITED
