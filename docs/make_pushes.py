"""Writes docs/assets/pushes.csv, the log used on the page on your own data: 2,000 pushes of the box.

Five decimals, like those of a sensor. `python docs/make_pushes.py`
"""

from pathlib import Path

import numpy as np

from capture_cp import Transitions, write_transitions
from capture_lab.tasks.box import Box

log = Box().transitions(2000, np.random.default_rng(0))
rounded = (np.round(part, 5) for part in (log.state, log.action, log.next))
write_transitions(
    Path(__file__).parent / "assets" / "pushes.csv",
    Transitions.from_arrays(*rounded, log.state_names, log.action_names, log.next_names),
)
