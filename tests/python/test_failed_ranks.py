"""failed_ranks(): who has died or left."""
import programs
import unisono

SURVIVORS = """
join()
group = dist.new_group([3, 2, 1, 0])
dist.barrier()
say(dist.failed_ranks(), dist.failed_ranks(group))
if rank % 2:
    threading.Event().wait()
try:
    dist.barrier()
except unisono.PeerLostError as error:
    say("lost", error.peer in (1, 3))
give_up = time.monotonic() + 2
while dist.failed_ranks() != [1, 3] and time.monotonic() < give_up:
    time.sleep(0.001)
say(dist.failed_ranks(), dist.failed_ranks(group))
"""


def test_ranks_that_are_killed_together_are_all_listed():
    ranks = programs.start(SURVIVORS, 4)
    try:
        assert [rank.line() for rank in ranks] == ["[] []"] * 4
    finally:
        for victim in (1, 3):
            ranks[victim].process.kill()
    ends = [rank.end() for rank in ranks]
    assert [ends[victim][0] for victim in (1, 3)] == [-9, -9]
    assert [ends[survivor] for survivor in (0, 2)] == [(0, ["lost True", "[1, 3] [1, 3]"], "")] * 2


def leaves_a_group():
    import unisono.distributed as dist
    mine = dist.new_group()
    if dist.get_rank() == 0:
        dist.destroy_process_group(mine)
    dist.barrier()
    try:
        answer = dist.failed_ranks(mine), dist.failed_ranks()
    except unisono.StateError as error:
        answer = "destroyed" in str(error), dist.failed_ranks()
    dist.barrier()  # nobody leaves before all have asked
    return answer


def test_a_rank_that_has_left_the_group_is_listed(pool):
    assert pool.run(leaves_a_group, 3) == [(True, []), ([0], []), ([0], [])]
