"""The live page: a task in 3D, its configuration space and the regions of the methods, with planning and replay."""
