"""GPU support: device detection, arrays, and conformal kernels compiled from the functions of `kernels`.

Nothing here is imported unless a device other than "cpu" is requested.
"""
