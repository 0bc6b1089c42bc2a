"""Foundations for all other packages: input checks, files, parameters, random streams."""
