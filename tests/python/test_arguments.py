"""Wrong arguments: an ArgumentError or ArgumentTypeError that names the argument, PeerArgumentError on the others, and the group
goes on. Each row of CALLS is a call that is right; each parameter of it is then given what WRONG has for its name."""
import re

import numpy
import pytest

import unisono
import unisono.comm_func as func
import unisono.distributed as dist


def array(count=4):
    return numpy.ones(count)


def read_only():
    made = array()
    made.setflags(write=False)
    return made


NO_ARRAY = ["text", 3.0, None, [1.0, 2.0], numpy.array([object()]), array().astype(">f8"),
            numpy.ones((1,) * 9), numpy.array(["2020-01-01"], dtype="datetime64[D]"), numpy.zeros(2, dtype=[("a", "i4")])]
NO_OUTPUT = NO_ARRAY + [numpy.float64(1), read_only(), read_only()[::2], b"bytes"]
NO_LIST = ["text", None, 3, array(), [array(), 3], {"a": array()}, [None, array()]]
NO_FLAG = [None, "yes", 2, [], 0.0]
NO_RANK = ["text", 1.5, 2**40, 2**70, [0], 7, -3, array()]
NO_SIZES = ["ab", 3, [1.5, 1], [1, None], 2.0, object()]
NO_OP = ["plus", 3, None, object()]
NO_SHAPE = ["ab", None, (1.5,), (-1,), (1,) * 9, 2.5]
NO_TIME = ["text", -1, 0, True, [], float("nan")]

WRONG = {
    "output": NO_OUTPUT, "output_tensor": NO_OUTPUT, "input": NO_ARRAY, "input_tensor": NO_ARRAY,
    "tensor_list": NO_LIST, "input_list": NO_LIST, "output_tensor_list": NO_LIST, "input_tensor_list": NO_LIST,
    "tensors": NO_LIST,
    "outputs": NO_LIST, "inputs": NO_LIST, "scatter_list": NO_LIST[:1] + NO_LIST[2:], "gather_list": NO_LIST[:1] + NO_LIST[2:],
    "output_tensor_lists": NO_LIST + [[array()], [[array()], None]], "op": NO_OP, "async_op": NO_FLAG, "src": NO_RANK,
    "dst": NO_RANK, "group_src": NO_RANK, "group_dst": NO_RANK, "output_split_sizes": NO_SIZES, "input_split_sizes": NO_SIZES,
    "timeout": NO_TIME, "wait_all_ranks": NO_FLAG, "output_shape": NO_SHAPE,
    "output_shape_list": ["ab", 3, None, [None], [(1.5,)]],
    "send_count_matrix": ["ab", 3, None, [[1.5]], [["a", "b"]]],
}
IGNORED = ("device_ids", "group")


def calls():
    """Every collective with good arguments, for two ranks; those of rank 1, who is the root where there is one."""
    root = dist.get_rank() == 1
    two = [array(), array()]
    common = {"group": None, "async_op": False}
    return [
        (dist.all_reduce, {"tensor": array(), "op": dist.ReduceOp.SUM} | common, NO_OUTPUT),
        (dist.scan, {"tensor": array(), "op": "sum"} | common, NO_OUTPUT),
        (dist.exscan, {"tensor": array(), "op": "max"} | common, NO_OUTPUT),
        (dist.all_gather, {"tensor_list": two, "tensor": array()} | common, NO_ARRAY),
        (dist.all_gather_into_tensor, {"output_tensor": array(8), "input_tensor": array()} | common, None),
        (dist.all_gather_single, {"output_tensor": array(8), "input_tensor": array()} | common, None),
        (dist.reduce_scatter, {"output": array(), "input_list": two, "op": "min"} | common, None),
        (dist.reduce_scatter_tensor, {"output": array(2), "input": array(), "op": "sum"} | common, None),
        (dist.reduce_scatter_single, {"output": array(2), "input": array(), "op": "sum"} | common, None),
        (dist.reduce, {"tensor": array(), "dst": 1, "op": "sum"} | common, NO_OUTPUT),
        (dist.reduce, {"tensor": array(), "group_dst": 1}, NO_OUTPUT),
        (dist.reduce, {"tensor": array(), "dst": 0, "op": "sum"} | common, NO_ARRAY),
        (dist.broadcast, {"tensor": array(), "src": 0} | common, NO_OUTPUT),
        (dist.broadcast, {"tensor": array(), "group_src": 0}, NO_OUTPUT),
        (dist.broadcast, {"tensor": array(), "group_src": 1}, NO_ARRAY),
        (dist.scatter, {"tensor": array(), "scatter_list": two if root else None, "src": 1} | common, NO_OUTPUT),
        (dist.scatter, {"tensor": array(), "scatter_list": two if root else None, "group_src": 1}, NO_OUTPUT),
        (dist.gather, {"tensor": array(), "gather_list": two if root else None, "dst": 1} | common, NO_ARRAY),
        (dist.gather, {"tensor": array(), "gather_list": two if root else None, "group_dst": 1}, NO_ARRAY),
        (dist.all_to_all, {"output_tensor_list": two, "input_tensor_list": [array(), array()]} | common, None),
        (dist.all_to_all_single, {"output": array(), "input": array(), "output_split_sizes": [2, 2], "input_split_sizes": [2, 2]}
         | common, None),
        (dist.barrier, {"timeout": 60.0, "device_ids": None} | common, None),
        (dist.monitored_barrier, {"group": None, "timeout": 60, "wait_all_ranks": False}, None),
        (dist.all_reduce_coalesced, {"tensors": two, "op": "sum"} | common, None),
        (dist.all_gather_coalesced, {"output_tensor_lists": [two, [array(), array()]], "input_tensor_list": [array(), array()]}
         | common, None),
        (dist.all_gather_into_tensor_coalesced, {"outputs": [array(8)], "inputs": [array()]} | common, None),
        (dist.reduce_scatter_tensor_coalesced, {"outputs": [array(2)], "inputs": [array()], "op": "sum"} | common, None),
        (func.all_reduce, {"tensor": array(), "op": "sum"} | common, NO_ARRAY),
        (func.scan, {"tensor": array(), "op": "sum"} | common, NO_ARRAY),
        (func.exscan, {"tensor": array(), "op": "sum"} | common, NO_ARRAY),
        (func.all_gather_into_tensor, {"tensor": array()} | common, NO_ARRAY),
        (func.reduce_scatter_tensor, {"tensor": array(), "op": "sum"} | common, NO_ARRAY + [array(3)]),
        (func.reduce, {"tensor": array(), "dst": 1, "op": "sum", "group": None}, NO_ARRAY),
        (func.scatter_tensor, {"tensor": array(), "src": 1, "group": None}, NO_ARRAY + [array(3)]),
        (func.gather_into_tensor, {"tensor": array(), "dst": 1, "group": None}, NO_ARRAY),
        (func.broadcast, {"tensor": array(), "src": 1, "group": None}, NO_ARRAY),
        (func.all_to_all_single_with_output_shape, {"output_shape": (4,), "tensor": array(), "output_split_sizes": None,
                                                    "input_split_sizes": [2, 2]} | common, NO_ARRAY),
        (func.all_to_all_with_output_shape, {"output_shape_list": [(4,), (4,)], "input_tensor_list": two} | common, None),
        (func.all_to_all_v_c, {"output": array(), "input": array(), "send_count_matrix": [[2, 2], [2, 2]]} | common, None),
    ]


def outcome(function, keywords):
    """The error of the call, or of waiting for what it returned."""
    try:
        result = function(**keywords)
        handle = result[1] if isinstance(result, tuple) else result
        if hasattr(handle, "wait"):
            handle.wait()
    except Exception as error:
        return error
    return None


def one_rank_is_wrong():
    """Rank 1 gives something wrong, rank 0 what is right, waiting and not; both say what they should not have seen."""
    complaints, count = [], 0
    for index, (function, good, no_tensor) in enumerate(calls()):
        for name in [name for name in good if name not in IGNORED]:
            for wrong in WRONG[name] if name != "tensor" else no_tensor:
                for async_op in ([False, True] if "async_op" in good else [None]):
                    count += 1
                    keywords = calls()[index][1] | ({} if async_op is None else {"async_op": async_op})
                    if dist.get_rank() == 1:
                        keywords[name] = wrong
                    error = outcome(function, keywords)
                    where = f"{function.__module__}.{function.__name__}({name}={wrong!r}), {async_op=}: {error!r}"
                    if not is_right(error, name):
                        complaints.append(where)
        error = outcome(function, calls()[index][1])
        if error is not None:
            complaints.append(f"{function.__name__} afterwards: {error!r}")
    return count, complaints


def is_right(error, name):
    if dist.get_rank() == 0:
        return isinstance(error, unisono.PeerArgumentError) and error.peer == 1
    kind = (unisono.ArgumentError, unisono.ArgumentTypeError)
    return isinstance(error, kind) and isinstance(error, (ValueError, TypeError)) and re.search(rf"\b{name}\b", str(error))


def test_collectives(pool):
    results = pool.run(one_rank_is_wrong, 2)
    assert [complaint for _, complaints in results for complaint in complaints] == []
    assert results[0][0] == results[1][0] > 800


def test_no_parameter_is_forgotten(pool):
    assert pool.run(all_parameters_are_named, 1) == [[]]


def wrong_on_a_broken_group():
    """A rank hears of its own mistake, whatever became of the group."""
    if dist.get_rank() == 1:
        return dist.destroy_process_group()
    with pytest.raises(unisono.PeerLostError):
        dist.recv(array(), src=1)
    for call in (lambda: dist.all_reduce("x"), lambda: func.all_reduce("x")):
        with pytest.raises(unisono.ArgumentTypeError, match="tensor"):
            call()


def test_wrong_on_a_broken_group(pool):
    pool.run(wrong_on_a_broken_group, 2)


def all_parameters_are_named():
    import inspect
    named = {}
    for function, good, _ in calls():
        named.setdefault(function, set()).update(good)
    missing = []
    for function, names in named.items():
        wanted = set(inspect.signature(function).parameters)
        missing += [f"{function.__name__}: {name}" for name in wanted - names if name not in IGNORED]
    return missing


def locally_wrong():
    """Functions that concern this rank alone, or that cannot tell the others: (call, the name that its error has to have)."""
    store = dist.HashStore()
    one = array()
    return [
        *[(lambda group=group, function=function: function(one, group=group), "group") for group in ("x", 3, [])
          for function in (dist.all_reduce, dist.send, dist.recv)],
        *[(lambda group=group: func.all_reduce(one, group=group), "group") for group in (3, [], "no such group")],
        *[(lambda function=function: function("x"), "group") for function in (dist.get_rank, dist.get_world_size,
                                                                             dist.get_process_group_ranks, dist.get_backend,
                                                                             dist.destroy_process_group, dist.abort)],
        (lambda: dist.get_group_rank(None, "x"), "global_rank"), (lambda: dist.get_global_rank(None, 1.5), "group_rank"),
        (lambda: dist.get_global_rank(None, 3), "group_rank"),
        *[(lambda ranks=ranks: dist.new_group(ranks), "ranks") for ranks in ("ab", 3, [1.5], [None], [2**40])],
        (lambda: dist.new_group([0], timeout="x"), "timeout"), (lambda: dist.new_group([0], reproducible="x"), "reproducible"),
        (lambda: dist.new_group([0], sort_ranks=None), "sort_ranks"), (lambda: dist.new_group([0], backend="gloo"), "backend"),
        *[(lambda ranks=ranks: dist.split_group(None, ranks), "split_ranks") for ranks in ("ab", 3, None, [], [3], [["a"]])],
        (lambda: dist.new_subgroups("x"), "group_size"), (lambda: dist.new_subgroups(0), "group_size"),
        *[(lambda ranks=ranks: dist.new_subgroups_by_enumeration(ranks), "ranks_per_subgroup_list")
          for ranks in ("a", [1], [["a"]])],
        (lambda: dist.shrink_group("ab"), "ranks_to_exclude"), (lambda: dist.shrink_group([9]), "ranks_to_exclude"),
        (lambda: dist.agree("x"), "flag"), (lambda: dist.agree(True, None, "x"), "timeout"), (lambda: dist.abort(None, 3), "why"),
        *[(lambda peer=peer: dist.send(one, peer), "dst") for peer in ("x", 1.5, None, [0], 9)],
        *[(lambda tag=tag: dist.send(one, 0, tag=tag), "tag") for tag in ("x", 1.5, None, 2**40)],
        *[(lambda peer=peer: dist.recv(array(), peer), "src") for peer in ("x", 1.5, [0], 9)],
        (lambda: dist.isend("x", 0), "tensor"), (lambda: dist.irecv("x", 0), "tensor"),
        (lambda: dist.recv(read_only(), 0), "tensor"),
        (lambda: dist.isend(one, 0, group_dst=0), "group_dst"), (lambda: dist.irecv(array(), 0, group_src=0), "group_src"),
        (lambda: dist.isend(one, group_dst="x"), "group_dst"), (lambda: dist.P2POp("sum", one, 0), "op"),
        (lambda: dist.batch_isend_irecv(3), "p2p_op_list"), (lambda: dist.batch_isend_irecv([3]), "p2p_op_list"),
        (lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, one, "x")]), "peer"),
        (lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, "x", 0)]), "tensor"),
        (lambda: func.send(one, "x"), "dst"), (lambda: func.recv(one, 1.5), "src"), (lambda: func.isend(one, 0, tag="x"), "tag"),
        (lambda: func.irecv("x"), "tensor"), (lambda: func.send(one, 0, 3), "group"), (lambda: func.P2POp("sum", one, 0), "op"),
        (lambda: func.batch_isend_irecv(3), "p2p_op_list"), (lambda: func.batch_isend_irecv([3]), "p2p_op_list"),
        (lambda: func.batch_isend_irecv([func.P2POp("irecv", (2,), 0)]), "recv_dtype"),
        (lambda: func.batch_isend_irecv([func.P2POp("irecv", (2,), 0, recv_dtype="int7")]), "recv_dtype"),
        (lambda: func.batch_isend_irecv([func.P2POp("isend", (2,), 0, recv_dtype="int8")]), "tensor"),
        (lambda: func.batch_isend_irecv([func.P2POp("isend", one, "x")]), "peer"),
        (lambda: dist.ReduceOp.PREMUL_SUM("x"), "factor"), (lambda: unisono.zeros_shared("x"), "shape"),
        (lambda: unisono.zeros_shared(3, "int7"), "dtype"), (lambda: unisono.zeros_shared(3, kind="tensor"), "kind"),
        (lambda: store.set(3, "x"), "key"), (lambda: store.set("x", 3), "value"), (lambda: store.get(3), "key"),
        (lambda: store.add("x", 1.5), "amount"), (lambda: store.wait("x"), "keys"), (lambda: store.wait([3]), "keys"),
        (lambda: store.wait(["x"], "y"), "timeout"), (lambda: store.check(None), "keys"),
        (lambda: store.multi_set(["x"], [3]), "values"),
        (lambda: store.compare_set("x", 3, "y"), "expected_value"), (lambda: store.set_timeout(None), "timeout"),
        (lambda: dist.FileStore(3), "file_name"), (lambda: dist.FileStore("/tmp/x", "y"), "world_size"),
        (lambda: dist.TCPStore(3, 1), "host_name"), (lambda: dist.TCPStore("127.0.0.1", "x"), "port"),
        (lambda: dist.TCPStore("127.0.0.1", 1, "x"), "world_size"), (lambda: dist.TCPStore("127.0.0.1", 1, 1, "x"), "is_master"),
        (lambda: dist.TCPStore("127.0.0.1", 1, timeout="x"), "timeout"),
        (lambda: dist.TCPStore("127.0.0.1", 1, wait_for_workers="x"), "wait_for_workers"),
        (lambda: dist.PrefixStore(3, store), "prefix"), (lambda: dist.PrefixStore("x", 3), "store"),
        (lambda: dist.PrefixStore("x", None), "store"), (lambda: dist.get_default_backend_for_device("cuda"), "device"),
        (lambda: unisono.communication.create_group(3, [0]), "group"),
        (lambda: unisono.communication.create_group("x", "ab"), "rank_ids"),
        (lambda: unisono.communication.get_rank(3), "group"),
        (lambda: unisono.communication.get_world_rank_from_group_rank("hccl_world_group", "x"), "group_rank_id"),
        (lambda: unisono.communication.get_group_rank_from_world_rank(1.5, "hccl_world_group"), "world_rank_id"),
    ]


def local_complaints():
    complaints = []
    for index, (call, name) in enumerate(locally_wrong()):
        try:
            call()
            error = None
        except Exception as caught:
            error = caught
        good = isinstance(error, (unisono.ArgumentError, unisono.ArgumentTypeError)) and re.search(rf"\b{name}", str(error))
        if not good:
            complaints.append(f"{index}, {name}: {error!r}")
    return complaints


def test_local_functions(pool):
    assert pool.run(local_complaints, 1) == [[]]


@pytest.mark.parametrize("name, keywords", [
    ("rank", {"rank": "x", "world_size": 1}), ("rank", {"rank": 1.5, "world_size": 1}), 
    ("rank", {"rank": 0}),
    ("world_size", {"rank": 0, "world_size": "x"}), ("timeout", {"timeout": "x"}), ("timeout", {"timeout": -5}),
    ("init_method", {"init_method": 3}), ("init_method", {"init_method": "ftp://x"}), ("store", {"store": 3}),
    ("store", {"store": {}}), ("backend", {"backend": "nccl"})])
def test_joining(name, keywords):
    with pytest.raises((unisono.ArgumentError, unisono.ArgumentTypeError), match=name):
        dist.init_process_group(**keywords)
    assert not dist.is_initialized()
