"""Geometry: distances between configurations, grids, strata."""
