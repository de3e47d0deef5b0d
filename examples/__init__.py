"""Programs to read and run: each compares its result with NumPy. `python -m examples` is the demonstration."""
