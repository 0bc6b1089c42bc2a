"""The marble labyrinth: a tilting board, walls, pits, and a model with half the true acceleration."""
