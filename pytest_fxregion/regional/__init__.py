"""Regions: annotated parts of a graph, compiled by Inductor, everything else left as it is."""

from .engine import RegionalGraph, compile_regions, regional_inductor
from .region import Region
from .serialize import serializable

__all__ = ["Region", "RegionalGraph", "compile_regions", "regional_inductor", "serializable"]
