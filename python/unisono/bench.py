"""What a call costs through Python and through torch: `unisono bench --through python|torch` runs this on every rank.

Everything that is compared is measured in one run, taking turns. The time of a repeat is that of the slowest rank. Through
Python, the same calls made by C++ are the comparison; through torch, those of Gloo.
"""
import argparse
import json
import statistics
import sys
import time

from unisono import _core
from unisono import distributed

_SIZES = "64,4K,64K,1M,16M,64M"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes_of(text):
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)


def _arguments():
    parser = argparse.ArgumentParser(prog="unisono bench", description=__doc__.split("\n")[0])
    parser.add_argument("collective", nargs="?", default="all_reduce", choices=sorted(_SUBJECTS))
    parser.add_argument("--through", choices=("python", "torch"), default="python")
    parser.add_argument("--sizes", default=_SIZES)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--json")
    return parser.parse_args()


def _parts(empty, count, ranks):
    return [empty(count) for _ in range(ranks)]


# How each collective is called: of the dialect or torch.distributed, which have the same names; how many elements of 4 bytes;
# and what makes an array. Sizes are as in `unisono bench`: one rank's data, or all pieces together.
_SUBJECTS = {
    "all_reduce": lambda dist, count, ranks, empty, group: (lambda data: lambda: dist.all_reduce(data, group=group))(empty(count)),
    "broadcast": lambda dist, count, ranks, empty, group:
        (lambda data: lambda: dist.broadcast(data, src=0, group=group))(empty(count)),
    "reduce": lambda dist, count, ranks, empty, group: (lambda data: lambda: dist.reduce(data, dst=0, group=group))(empty(count)),
    "all_gather_into_tensor": lambda dist, count, ranks, empty, group:
        (lambda whole, part: lambda: dist.all_gather_into_tensor(whole, part, group=group))
        (empty(max(count // ranks, 1) * ranks), empty(max(count // ranks, 1))),
    "all_gather": lambda dist, count, ranks, empty, group:
        (lambda parts, part: lambda: dist.all_gather(parts, part, group=group))
        (_parts(empty, max(count // ranks, 1), ranks), empty(max(count // ranks, 1))),
    "reduce_scatter": lambda dist, count, ranks, empty, group:
        (lambda part, parts: lambda: dist.reduce_scatter(part, parts, group=group))
        (empty(max(count // ranks, 1)), _parts(empty, max(count // ranks, 1), ranks)),
    "all_to_all_single": lambda dist, count, ranks, empty, group:
        (lambda to, given: lambda: dist.all_to_all_single(to, given, group=group))
        (empty(max(count // ranks, 1) * ranks), empty(max(count // ranks, 1) * ranks)),
    "barrier": lambda dist, count, ranks, empty, group: lambda: dist.barrier(group=group),
}


class _Clock:
    """Times calls on all ranks together, by a world of our own that none of the measured calls use."""

    def __init__(self):
        import numpy
        self.word = numpy.zeros(1)

    def slowest(self, seconds):
        self.word[0] = seconds
        _core.all_reduce(self.word, distributed.ReduceOp.MAX, None, False)
        return float(self.word[0])

    def per_call(self, loop, calls):
        """Microseconds of one call: `loop` makes that many."""
        _core.barrier(None, False)
        start = time.perf_counter()
        loop(calls)
        return self.slowest(time.perf_counter() - start) / calls * 1e6


def _loop(call):
    def loop(calls):
        for _ in range(calls):
            call()
    return loop


def _numpy_loops(options, count, ranks):
    """Through Python, and the same in C++."""
    import numpy

    def empty(elements):
        return numpy.zeros(elements, dtype="float32")

    loops = {"python": _loop(_SUBJECTS[options.collective](distributed, count, ranks, empty, None))}
    if options.collective == "all_reduce":
        data = empty(count)
        loops["c++"] = lambda calls: _core.repeat_all_reduce(data, calls)
    return loops


def _torch_loops(options, count, ranks):
    import torch
    import torch.distributed

    def empty(elements):
        return torch.zeros(elements)

    make = _SUBJECTS[options.collective]
    return {name: _loop(make(torch.distributed, count, ranks, empty, group)) for name, group in options.groups.items()}


def _measure(options, clock, loops):
    """Medians by name: each name's turn comes once a round."""
    calls = {}
    for name, loop in loops.items():
        guess = max(clock.per_call(loop, 5), 0.05)
        calls[name] = max(int(min(options.seconds * 1e6 / guess, 200_000)), 4)
    times = {name: [] for name in loops}
    for _ in range(options.repeats):
        for name, loop in loops.items():
            times[name].append(clock.per_call(loop, calls[name]))
    return {name: (min(all_times), statistics.median(all_times)) for name, all_times in times.items()}


def _join(options):
    if options.through == "python":
        distributed.init_process_group()
        return
    import torch.distributed
    import unisono.torch  # noqa: F401, the backend
    torch.distributed.init_process_group("unisono")
    options.groups = {"unisono": None, "gloo": torch.distributed.new_group(backend="gloo")}


def _leave(options):
    if options.through == "python":
        distributed.destroy_process_group()
        return
    import torch.distributed
    torch.distributed.destroy_process_group()


def main():
    """Measures, and prints on rank 0."""
    options = _arguments()
    _join(options)
    rank, ranks = _core.get_rank(None), _core.get_world_size(None)
    clock = _Clock()
    make_loops = _torch_loops if options.through == "torch" else _numpy_loops
    rows = []
    for text in options.sizes.split(","):
        results = _measure(options, clock, make_loops(options, max(_bytes_of(text) // 4, 1), ranks))
        rows.append({"collective": options.collective, "through": options.through, "ranks": ranks, "bytes": _bytes_of(text),
                     **{name: {"least_us": least, "median_us": median} for name, (least, median) in results.items()}})
        if rank == 0:
            _print(options, rows[-1], results, len(rows) == 1)
    if rank == 0 and options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    _leave(options)
    return 0


def _print(options, row, results, is_first):
    names = list(results)
    if is_first:
        print(f"{options.collective} through {options.through} on {row['ranks']} ranks: µs a call, the median of {options.repeats}")
        print(f"{'bytes':>10}" + "".join(f"{name:>12}" for name in names) + ("  difference" if "c++" in names else "") +
              ("    gloo / unisono" if "gloo" in names else ""))
    medians = {name: median for name, (_, median) in results.items()}
    line = f"{row['bytes']:>10}" + "".join(f"{median:>12.2f}" for median in medians.values())
    if "c++" in medians:
        line += f"{medians['python'] - medians['c++']:>12.2f}"
    if "gloo" in medians:
        line += f"{medians['gloo'] / medians['unisono']:>18.1f}"
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
