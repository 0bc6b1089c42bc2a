"""Compiled inner loops: scalar rules written once, wrapped by parallel loops over rows.

The scalar functions (`squared_distance`, `squared_limit`, `find_group`) accept only plain numbers and array rows, so the
same source can also be compiled for a GPU.
"""

from capture_cp.kernels import compiler as compiler  # before any function is compiled
