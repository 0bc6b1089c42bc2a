"""The pictures of the documentation, by page; `python docs/make_figures.py` draws them."""
