"""Planning wholly on a GPU; imported only when one is asked for."""
