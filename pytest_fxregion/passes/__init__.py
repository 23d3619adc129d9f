"""Passes on the joint graph: which nodes sum gradients, and what backward nodes inherit."""
