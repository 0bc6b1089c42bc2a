"""The GPU: whether there is one, arrays on it, and the conformal kernels compiled for it from the functions of `kernels`.

Nothing here is imported unless a device other than "cpu" is asked for.
"""
