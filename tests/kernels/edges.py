"""Twins at the edges of integers and slices, read as text, never imported.

The line above each decorator says which properties do not hold (WRONG), or which are to be shown (RIGHT).
"""

from numba import cuda, int32

# ---- slices that go down


# WRONG: race-free
@cuda.jit
def down_past_the_start(a):
    i = cuda.grid(1)
    b = a[3:-1000000:-1]
    if 4 <= a.size < 1000 and i < b.size:
        b[i] = i
        if i == 0:
            a[0] = 7


# RIGHT: race-free in-bounds
@cuda.jit
def down_to_the_second(a):
    i = cuda.grid(1)
    b = a[3:0:-1]
    if 4 <= a.size < 1000 and i < b.size:
        b[i] = i
        if i == 0:
            a[0] = 7


# WRONG: race-free
@cuda.jit
def down_from_past_the_end(a):
    i = cuda.grid(1)
    b = a[1000000:0:-1]
    if a.size < 1000 and 1 <= i < b.size:
        b[i] = i
        a[a.size - i] = 100 + i


# RIGHT: race-free in-bounds
@cuda.jit
def each_of_a_reversed_array(a):
    i = cuda.grid(1)
    b = a[1000000::-1]
    if a.size < 1000 and i < b.size:
        b[i] = i


# WRONG: in-bounds
@cuda.jit
def down_has_four(a):
    b = a[3:-1000000:-1]
    if 4 <= a.size < 1000 and cuda.grid(1) == 0:
        c = cuda.local.array(3, int32)
        for k in range(b.size):
            c[k] = k


# RIGHT: in-bounds
@cuda.jit
def down_has_at_most_four(a):
    b = a[3:-1000000:-1]
    if 4 <= a.size < 1000 and cuda.grid(1) == 0:
        c = cuda.local.array(4, int32)
        for k in range(b.size):
            c[k] = k


# WRONG: in-bounds
@cuda.jit
def down_by_a_scalar(a, n):
    b = a[n::-1]
    if n == 5000 and a.size < 1000 and cuda.grid(1) == 0:
        c = cuda.local.array(999, int32)
        for k in range(b.size + 1):
            c[k] = k


# ---- booleans as numbers


# WRONG: race-free
@cuda.jit("void(int32[:], boolean)")
def divided_by_a_boolean(a, n):
    i = cuda.grid(1)
    if n and i // (n + 1) < a.size:
        a[i // (n + 1)] = i


# RIGHT: race-free in-bounds
@cuda.jit("void(int32[:], boolean)")
def scaled_by_a_boolean(a, n):
    i = cuda.grid(1)
    if n and i * n < a.size:
        a[i * n] = i
