"""What a call costs through Python and through torch: `unisono bench --through python|torch` runs this on every rank.

Everything that is compared is measured in one run, taking turns. The time of a repeat is that of the slowest rank. Through
torch, every call is compared with Gloo's; through Python, all_reduce with the same call made in a loop of C++, which says what
the way through Python costs.
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


class _Place:
    """Where calls are measured: functions of the dialect or of torch.distributed, which have the same names, and a group."""

    def __init__(self, functions, group, ranks, empty):
        self.functions, self.group, self.ranks, self.empty = functions, group, ranks, empty

    def call(self, name, *arguments, **options):
        """A function without parameters that makes the call."""
        function = getattr(self.functions, name)
        return lambda: function(*arguments, group=self.group, **options)

    def part(self, count):
        return self.empty(max(count // self.ranks, 1))

    def parts(self, count):
        return [self.part(count) for _ in range(self.ranks)]

    def whole(self, count):
        return self.empty(max(count // self.ranks, 1) * self.ranks)


# The call of each collective on `count` elements. Sizes are as in `unisono bench`: one rank's data, or all pieces together.
_SUBJECTS = {
    "all_reduce": lambda at, count: at.call("all_reduce", at.empty(count)),
    "broadcast": lambda at, count: at.call("broadcast", at.empty(count), src=0),
    "reduce": lambda at, count: at.call("reduce", at.empty(count), dst=0),
    "all_gather": lambda at, count: at.call("all_gather", at.parts(count), at.part(count)),
    "all_gather_into_tensor": lambda at, count: at.call("all_gather_into_tensor", at.whole(count), at.part(count)),
    "reduce_scatter": lambda at, count: at.call("reduce_scatter", at.part(count), at.parts(count)),
    "all_to_all_single": lambda at, count: at.call("all_to_all_single", at.whole(count), at.whole(count)),
    "barrier": lambda at, count: at.call("barrier"),
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
        distributed.barrier()
        start = time.perf_counter()
        loop(calls)
        return self.slowest(time.perf_counter() - start) / calls * 1e6


def _loop(call):
    def loop(calls):
        for _ in range(calls):
            call()
    return loop


def _numpy_loops(options, count, ranks):
    """Through Python, and all_reduce in C++, too."""
    import numpy

    def empty(elements):
        return numpy.zeros(elements, dtype="float32")

    loops = {"python": _loop(_SUBJECTS[options.collective](_Place(distributed, None, ranks, empty), count))}
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
    return {name: _loop(make(_Place(torch.distributed, group, ranks, empty), count)) for name, group in options.groups.items()}


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
