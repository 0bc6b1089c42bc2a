"""Planning entirely on a GPU; imported only when a GPU is used."""
