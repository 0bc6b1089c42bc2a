"""Compiled inner loops: scalar rules written once, wrapped by parallel loops over rows.

The scalar functions (`squared_distance`, `squared_limit`, `find_group`) take plain numbers and array rows only, so the
same source can be compiled for another target.
"""

from capture_cp.kernels import compiler as compiler  # before any function is compiled
