"""What cannot work in a mode, and why. Everything else with the label `live` runs in every mode."""
import re
from typing import NamedTuple


class Row(NamedTuple):
    modes: re.Pattern  # found in the mode's name
    test: str          # the ctest
    only: str          # a gtest filter of what is left out; "": all of it
    reason: str


ROWS = ()
