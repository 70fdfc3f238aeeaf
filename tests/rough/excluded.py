"""What cannot work in a mode, and why. Everything else with the label `live` runs in every mode."""
import re
from typing import NamedTuple


class Row(NamedTuple):
    modes: re.Pattern  # found in the mode's name
    test: str          # the ctest
    only: str          # a gtest filter of what is left out; "": all of it
    reason: str


def row(modes, test, only, reason):
    return Row(re.compile(modes), test, only, reason)


NO_PID = "expects pids in errors, and those of another namespace mean nothing"
WARNED = "expects nothing else on standard error, where rank 0 warns of the neighbours"
TOO_LARGE = "its buffers and ranks take more than 64 MiB by themselves; rough_test has the calls in sizes that fit"
LARGE_TESTS = ("async_test", "coalesced_test", "collectives_test", "command_test", "groups_test", "large_test", "letters_test", "mismatch_test",
               "plans_test", "reproducible_test", "shared_lists_test", "shared_tensor_test", "torture_calls_test", "torture_deaths_test",
               "torture_finds_test", "user_reduction_test")
NO_READS = "asks by name for an algorithm that reads peers' memory, which is an error where the kernel refuses that"
ROWS = (
    row("^[cg]", "peer_reads_test", "PeerReads.that_are_refused_on_one_rank_or_all_are_done_without:PeerReads.that_are_refused_later_break_*",
        "begins with ranks that may read each other's memory"),
    row("^[cg]", "surprise_test", "Surprise.memory_of_a_peer_that_cannot_be_read_breaks_the_group_and_says_why", NO_READS),
    row("^[cg]", "plans_test", "Of/EveryAlgorithm.*:AllReduce.of_random_floats_*", NO_READS),
    row("^[cg]", "reproducible_test", "SameBits.on_all_ranks_and_where_asked_for_by_every_plan", NO_READS),
    row("^[cg]", "user_reduction_test", "UserReduction.that_is_not_commutative_combines_in_rank_order_by_every_algorithm", NO_READS),
    row("^[cg]", "torture_calls_test", "Torture.*", NO_READS),
    row("^[cg]", "torture_deaths_test", "Torture.*", NO_READS),
    row("^[cg]", "torture_finds_test", "Found.a_rank_that_refused_and_went_on_is_not_read_from:"
        "Found.memory_that_was_given_up_while_it_was_read_is_no_result", NO_READS),
    row("^g$", "ordinary_users_test", "OrdinaryUsers.are_told_which_signal_*:OrdinaryUsers.who_call_exec_*:OrdinaryUsers.who_keep_core_dumps_*",
        "how a process of another pid namespace ended cannot be known"),
    row("^d$", "ordinary_users_test", "OrdinaryUsers.who_close_standard_descriptors_*:OrdinaryUsers.with_too_few_descriptors_*:"
        "OrdinaryUsers.are_not_kept_from_*", "closes or counts descriptors itself, or reads what rank 0 wrote to standard error"),
    row("^b-256$", "ordinary_users_test", "OrdinaryUsers.start_many_ranks_with_a_thousand_descriptors", "takes a thousand"),
    *(row("^i$", test, "", TOO_LARGE) for test in LARGE_TESTS),
    row("^h$", "command_test", "Bench.raises_the_arena_to_what_shared_tensors_need", "takes 16 TiB of address space"),
    row("^i$", "shortage_test", "ControlGroup.*", "makes control groups of its own, and expects to be limited by those"),
    row("^g$", "interrupt_test", "Interrupt.ends_waiting_for_another_thread_that_agrees", "looks for its own pid in the outer /proc"),
    row("^g$", "join_test", "Join.a_second_rank_0_is_told_who_the_first_is:"
        "Join.a_rank_started_again_is_refused_while_the_old_world_lives_and_welcome_in_the_next", NO_PID),
    row("^g$", "join_strangers_test", "Strangers.another_version_of_the_library_is_named_to_both:"
        "OtherUser.who_squats_the_meeting_place_is_named_and_not_obeyed", NO_PID),
    row("^j$", "clock_jump_test", "WallClock.that_jumps_has_no_effect", WARNED),
    row("^j$", "deadline_test", "Deadline.a_straggler_is_named_in_a_warning_before_the_deadline", WARNED),
    row("^j$", "ordinary_users_test", "OrdinaryUsers.with_too_few_descriptors_*",
        "where descriptors are short and strangers take what there is, a rank may come too late to hear why joining failed"),
    row("^h$", "ordinary_users_test", "OrdinaryUsers.start_many_ranks_with_a_thousand_descriptors", "maps 128 arenas of 1 GiB"),
    row("^b-256$", "collectives_test", "EveryCollective.works_among_16_ranks_on_few_cores",
        "sixteen ranks as threads of one process share its 256 descriptors, and need more"),
    row("^d$", "c_api_test", "TheCHeader.does_what_it_says_from_c_on_every_number_of_ranks", "its ranks say on standard output what held"),
    row("^d$", "deadline_test", "Deadline.a_straggler_is_named_in_a_warning_before_the_deadline", "reads the warning from standard error"),
    row("^f$", "run_test", "Run.a_reader_that_has_gone_ends_the_ranks", "SIGPIPE is ignored, and so it does not end them"),
    row("^f$", "run_failure_test", "RunSignals.*", "SIGINT is ignored, and a shell cannot trap a signal that it finds ignored"),
)
