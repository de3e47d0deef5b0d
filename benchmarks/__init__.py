"""Benchmarks: one module each, `main()` prints both sides and their ratio. Nothing here asserts a speed."""
