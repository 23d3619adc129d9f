"""The kernels that Inductor made of a region: their source, and what a compiler makes of them."""
