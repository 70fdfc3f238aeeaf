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
USABLE = "expects the group to be usable after calls that differ or are refused; between hosts they break it, as pretended_hosts_test has it"
ONE_HOST = "asks by name for algorithms that need all ranks on one host"
NO_WITNESS = "expects to be told how a rank ended, which nobody can tell of a host without another rank"
NOT_AWAITED = "expects all ranks to wait for one; between hosts who does not wait for it itself may return, or hears of it after two seconds"
ENCRYPTS = "asks for encryption, which UCX has not"
SEES_MEMORY = "looks at, or writes over, memory of a rank that is on another host here"
BETWEEN_HOSTS = (
    ("agree_test", "MonitoredBarrier.is_not_a_barrier:AgreeDeath.*",
     USABLE + "; or more die than somebody on their host can testify, and those who are left may be the smaller side"),
    ("argument_test", "", USABLE),
    ("call_numbers_test", "CallNumbers.wrap_where_calls_differ_or_are_refused", USABLE),
    ("coalesced_test", "CoalescedDiffers.*:CoalescedRefuses.*", USABLE),
    ("coalescing_test", "Coalescing.ends_with_its_scope:Coalescing.says_which_of_its_calls_failed_and_why:"
     "Coalescing.stays_in_step_when_one_rank_gives_something_wrong", USABLE),
    ("corruption_test", "", SEES_MEMORY),
    ("death_test", "", "waits until every rank sleeps in a call, and who only gives to other hosts does not"),
    ("deadline_stop_test", "Stopped.a_rank_stopped_past_the_deadline_*", NOT_AWAITED),
    ("dialects_test", "Page/DialectsRow.*", USABLE),
    ("exchange_error_test", "", USABLE),
    ("join_strangers_test", "Strangers.who_are_handed_the_memory_*", SEES_MEMORY),
    ("join_test", "Join.the_cores_of_one_rank_count_for_all", SEES_MEMORY),
    ("mismatch_test", "", USABLE),
    ("mismatch_forms_test", "", USABLE),
    ("no_network_test", "", "has it that ranks of one host use no network"),
    ("ordinary_users_test", "OrdinaryUsers.are_told_which_signal_*:OrdinaryUsers.who_call_exec_*:OrdinaryUsers.whose_address_space_*",
     NO_WITNESS + "; or fewer arenas are mapped than it takes to run out"),
    ("peer_reads_test", "", SEES_MEMORY),
    ("persistent_test", "Prepared.calls_that_differ_are_found_each_time", USABLE),
    ("plans_test", "", ONE_HOST),
    ("refusals_test", "", USABLE),
    ("reproducible_test", "SameBits.*", ONE_HOST),
    ("resources_test", "Memory.that_one_rank_lacks_*", USABLE),
    ("rough_test", "Kill.*:AddressSpace.*", NOT_AWAITED + "; or no arena of another is mapped that could be too much"),
    ("scan_test", "Scan.adds_up_by_the_tree_*:Scan.and_exscan_are_different_calls:Scan.refuses_avg_and_says_why", ONE_HOST + ", or " + USABLE),
    ("shared_lists_test", "SharedTensorLists.are_taken_by_every_plan", ONE_HOST),
    ("shared_tensor_test", "SharedTensors.are_taken_by_every_plan:SharedTensors.of_a_rank_that_left_are_not_believed",
     ONE_HOST + ", or " + SEES_MEMORY),
    ("shortage_test", "SharedMemory.that_is_missing_in_a_large_call_*", USABLE),
    ("signatures_test", "Signatures.that_collide_*", USABLE),
    ("streams_test", "Of/Streams.do_not_stand_in_the_way_*", NO_WITNESS),
    ("surprise_test", "Surprise.memory_*:Surprise.a_rank_that_comes_later_*:Timeouts.that_cannot_be_are_refused",
     USABLE + "; or it knows at once that another gave up, which is told later"),
    ("torture_calls_test", "", USABLE + "; it chooses layouts itself"),
    ("torture_cycles_test", "Cycles.of_making_and_destroying_groups_*", "counts at once, and that the others left the last group is told later"),
    ("torture_deaths_test", "", USABLE + "; it chooses layouts itself"),
    ("torture_finds_test", "", ONE_HOST),
    ("torture_points_test", "", NO_WITNESS),
    ("user_reduction_test", "UserReduction.that_*", USABLE),
    ("waiting_test", "Waiting.no_wake_up_is_lost_between_crowded_ranks", ONE_HOST),
)
# Of several rows for one test and mode the last counts.
ROWS = (
    *(row("^[lm]-", *each) for each in BETWEEN_HOSTS),
    *(row("^m-", test, "", "makes machines itself") for test in ("machines_addresses_test", "machines_doctor_test", "machines_first_lost_test",
      "machines_kills_test",
      "machines_munge_test", "machines_names_test", "machines_pmix_test", "machines_resets_test", "machines_silence_test", "machines_strangers_test", "machines_survivors_test", "machines_test", "machines_wires_test", "meeting_again_test", "meeting_test")),
    row("^m-", "torture_starved_test", "Torture.of_starved_ranks_on_two_machines", "makes machines itself"),
    row("^m-", "ordinary_users_test", "OrdinaryUsers.are_told_which_signal_*:OrdinaryUsers.who_call_exec_*:OrdinaryUsers.whose_address_space_*:"
        "OrdinaryUsers.with_too_few_descriptors_*:OrdinaryUsers.start_many_ranks_*:OrdinaryUsers.are_not_kept_from_joining_*:OrdinaryUsers.who_run_out_of_*",
        NO_WITNESS + "; descriptors and floods on machines are in machines_kills_test and machines_strangers_test, and an ordinary user cannot enter machines"),
    row("^m-", "pretended_hosts_test", "BetweenHosts.a_deadline_says_of_a_stopped_rank_*", "asks for a rank with a mate, which not every layout of machines has"),
    row("^m-encrypted$", "doctor_command_test", "DoctorCommand.measures_between_hosts", "pretends hosts, and has no secret to encrypt by"),
    row("^l-ucx$", "machines_names_test", "MachinesNames.encryption_*:MachinesNames.settings_that_differ_*", ENCRYPTS),
    row("^l-ucx$", "machines_wires_test", "", "has it that data goes by the relay"),
    row("-ucx$", "shortage_test", "Threads.that_cannot_be_started_*:SharedMemory.that_is_missing_in_a_large_call_*:ControlGroup.without_room_*", USABLE + "; and UCX takes memory without asking, and ends a process in which it cannot start its thread"),
    row("-ucx$", "clock_jump_test", "WallClock.that_jumps_has_no_effect", "expects nothing on standard error, where UCX may find no way between threads of one process that are on two machines"),
    row("-ucx$", "deadline_test", "Deadline.a_straggler_is_named_in_a_warning_before_the_deadline", "likewise"),
    row("^m-", "ucx_test", "Fabric.that_only_some_ranks_*", "pretends hosts"),
    row("^m-ucx$", "death_stream_test", "", "UCX 1.13 ends a process by an assertion in its TCP when another dies while they connect, now and then; 1.22 does not"),
    row("^l-ucx$", "machines_doctor_test", "", "measures the wire, which data does not take"),
    row("^l-ucx$", "machines_strangers_test", "MachineStrangers.who_listen_to_the_wire_*", ENCRYPTS),
    row("^m-strangers$", "clock_jump_test", "WallClock.that_jumps_has_no_effect", WARNED),
    row("^m-strangers$", "deadline_test", "Deadline.a_straggler_is_named_in_a_warning_before_the_deadline", WARNED),
    row("^m-", "tcp_strangers_test", "TCPStrangers.a_secret_is_needed_*", "there is a secret, where there are machines"),
    *(row("^m-", test, "", "is about the meeting of ranks on one machine; meeting_test and tcp_strangers_test have that on several")
      for test in ("join_test", "join_strangers_test", "meeting_local_test")),
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
        "OrdinaryUsers.who_run_out_of_descriptors_later_*:OrdinaryUsers.are_not_kept_from_*", "closes or counts descriptors itself, or reads what rank 0 wrote to standard error"),
    row("^b-256$", "ordinary_users_test", "OrdinaryUsers.start_many_ranks_with_a_thousand_descriptors", "takes a thousand"),
    row("^b-256$", "meeting_local_test", "MeetingOnOneMachine.takes_256_ranks_*", "takes a thousand"),
    row("^b-256$", "tcp_strangers_test", "TCPStrangers.that_repeat_what_a_user_has_said_*", "takes four hundred"),
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
    row("^b-", "tcp_store_test", "TCPStores.a_thousand_users_meet", "takes two thousand"),
    row("^b-", "tcp_strangers_test", "TCPStrangers.that_are_silent_*", "takes a thousand"),
    row("^b-256$", "collectives_test", "EveryCollective.works_among_16_ranks_on_few_cores",
        "sixteen ranks as threads of one process share its 256 descriptors, and need more"),
    row("^d$", "c_api_test", "TheCHeader.does_what_it_says_from_c_on_every_number_of_ranks", "its ranks say on standard output what held"),
    row("^d$", "deadline_test", "Deadline.a_straggler_is_named_in_a_warning_before_the_deadline", "reads the warning from standard error"),
    row("^d$", "letters_hosts_test", "*/LettersInVain.say_it_in_a_warning_before_the_deadline/*", "reads the warning from standard error"),
    row("^f$", "run_test", "Run.a_reader_that_has_gone_ends_the_ranks", "SIGPIPE is ignored, and so it does not end them"),
    row("^f$", "run_failure_test", "RunSignals.*", "SIGINT is ignored, and a shell cannot trap a signal that it finds ignored"),
)
