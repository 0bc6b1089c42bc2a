"""The live page: a task in 3D, its configuration space and regions, with live planning and replay."""
