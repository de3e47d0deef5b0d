"""CUDA Tile IR: the second compiler for tile kernels, through the `cuda-tile` package."""
