import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from rank_pool import Pool  # noqa: E402


@pytest.fixture(scope="session")
def pool():
    """Processes that are ranks: see rank_pool.py."""
    made = Pool()
    yield made
    made.close()
