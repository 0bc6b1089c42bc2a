"""Below everything: checks of input, files, parameters, random streams."""
