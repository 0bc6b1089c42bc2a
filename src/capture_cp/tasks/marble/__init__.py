"""The marble labyrinth: a tilting board, walls, pits, and a model that believes in half the acceleration."""
