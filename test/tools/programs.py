"""What the tests of the programs share with those of the numbers: running programs, artifacts compiled once."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "numerics"))
from common import *  # noqa: E402,F401,F403
