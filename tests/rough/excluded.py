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


ROWS = (
    row("^d$", "c_api_test", "TheCHeader.does_what_it_says_from_c_on_every_number_of_ranks", "its ranks say on standard output what held"),
    row("^d$", "deadline_test", "Deadline.a_straggler_is_named_in_a_warning_before_the_deadline", "reads the warning from standard error"),
    row("^f$", "run_test", "Run.a_reader_that_has_gone_ends_the_ranks", "SIGPIPE is ignored, and so it does not end them"),
    row("^f$", "run_failure_test", "RunSignals.*", "SIGINT is ignored, and a shell cannot trap a signal that it finds ignored"),
)
