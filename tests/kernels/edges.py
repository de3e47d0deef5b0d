"""Twins at the edges of integers and slices, read as text, never imported.

The line above each decorator says which properties do not hold (WRONG), or which are to be shown (RIGHT).
"""

from numba import cuda, int16, int32

import tilecheck as tc
from tilecheck import Dyn, Mut, Shared, Tensor, i32, i64

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


# ---- counters


# WRONG: in-bounds
@cuda.jit
def taken_from_first(a, c):
    cuda.atomic.sub(c, 0, 5)
    t = cuda.atomic.add(c, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)


# RIGHT: in-bounds
@cuda.jit
def added_to_first(a, c):
    cuda.atomic.sub(c, 0, -5)
    t = cuda.atomic.add(c, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)


# WRONG: in-bounds
@cuda.jit
def lowered_later(a, c):
    t = cuda.atomic.add(c, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)
    cuda.atomic.min(c, 0, -7)


# RIGHT: in-bounds
@cuda.jit
def lowered_to_zero(a, c):
    t = cuda.atomic.add(c, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)
    cuda.atomic.min(c, 0, 0)


# WRONG: in-bounds
@cuda.jit
def exchanged_later(a, c):
    t = cuda.atomic.add(c, 0, 1)
    cuda.atomic.exch(c, 0, -7)
    if t < a.size:
        cuda.atomic.add(a, t, 1)


# WRONG: in-bounds
@cuda.jit
def falls_in_a_loop(a, c, n):
    for _ in range(n):
        t = cuda.atomic.add(c, 0, 1)
        if t < a.size:
            cuda.atomic.add(a, t, 1)
        cuda.atomic.add(c, 0, -2)


# WRONG: in-bounds
@cuda.jit
def steps_of_either_sign(a, c, steps):
    i = cuda.grid(1)
    t = cuda.atomic.add(c, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)
    if i < steps.size:
        cuda.atomic.add(c, 0, steps[i])


# WRONG: in-bounds
@cuda.jit
def starts_below_zero(a):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = -10
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)


# WRONG: in-bounds
@cuda.jit
def starts_at_a_scalar(a, n):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = n
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)


# RIGHT: in-bounds
@cuda.jit
def starts_at_the_block_size(a):
    s = cuda.shared.array(2, int32)
    if cuda.threadIdx.x == 0:
        s[0] = cuda.blockDim.x
        s[1] = -1
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, 1)
    if t < a.size:
        cuda.atomic.add(a, t, 1)


# WRONG: in-bounds
@cuda.jit
def one_thread_starts_below_zero(a, c):
    if cuda.grid(1) == 0:
        c[0] = -3
        t = cuda.atomic.add(c, 0, 1)
        if t < a.size:
            a[t] = 1


# WRONG: in-bounds
@cuda.jit
def told_what_fell(a, c):
    s = cuda.shared.array(1, int32)
    cuda.atomic.sub(c, 0, 2)
    if cuda.threadIdx.x == 0:
        s[0] = cuda.atomic.add(c, 0, 1)
    cuda.syncthreads()
    if s[0] < a.size:
        cuda.atomic.add(a, s[0], 1)


# WRONG: in-bounds
@cuda.jit
def wraps_in_a_block(a):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, 1 << 30)
    if t < a.size:
        cuda.atomic.add(a, t, 1)


# WRONG: race-free
@cuda.jit
def one_ticket_for_two(a):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, 1 << 24)
    if cuda.blockIdx.x == 0 and 0 <= t < a.size:
        a[t] = cuda.threadIdx.x


# RIGHT: race-free in-bounds
@cuda.jit
def tickets_of_thirty_two(a):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, 32)
    if cuda.blockIdx.x == 0 and t < a.size:
        a[t] = cuda.threadIdx.x


# WRONG: race-free
@cuda.jit
def half_of_sixteen_bits(a):
    s = cuda.shared.array(1, int16)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, 1 << 14)
    if cuda.blockIdx.x == 0 and 0 <= t < a.size:
        a[t] = cuda.threadIdx.x


# WRONG: race-free
@cuda.jit
def steps_made_of_thread_numbers(a):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    t = cuda.atomic.add(s, 0, (cuda.threadIdx.x + 1) << 24)
    if cuda.blockIdx.x == 0 and 0 <= t < a.size:
        a[t] = cuda.threadIdx.x


# ---- arithmetic on elements of 64 bits


# WRONG: in-bounds
@tc.simt(block=64, requires="p >= 0")
def four_times_an_element(z: Tensor[Shared, i32, Dyn], p: Tensor[Shared, i64, Dyn], o: Tensor[Mut, i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < p.size and i < o.size:
        j = p[i] * 4
        if j < z.size:
            o[i] = z[j]


# WRONG: in-bounds
@tc.simt(block=64, requires="p >= 0")
def an_element_shifted(z: Tensor[Shared, i32, Dyn], p: Tensor[Shared, i64, Dyn], o: Tensor[Mut, i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < p.size and i < o.size:
        j = p[i] << 2
        if j < z.size:
            o[i] = z[j]


# RIGHT: in-bounds
@tc.simt(block=64, requires="p >= 0")
def a_bounded_element(z: Tensor[Shared, i32, Dyn], p: Tensor[Shared, i64, Dyn], o: Tensor[Mut, i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < p.size and i < o.size and p[i] < z.size:
        j = p[i] * 4
        if j < z.size:
            o[i] = z[j]


# RIGHT: in-bounds
@tc.simt(block=64, requires="p >= 0")
def four_times_a_short(z: Tensor[Shared, i32, Dyn], p: Tensor[Shared, i32, Dyn], o: Tensor[Mut, i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < p.size and i < o.size:
        j = p[i] * 4
        if j < z.size:
            o[i] = z[j]


# WRONG: race-free
@tc.simt(block=64, requires="distinct(p)")
def twice_a_distinct_element(z: Tensor[Mut, i32, Dyn], p: Tensor[Shared, i64, Dyn]) -> None:
    i = cuda.grid(1)
    if i < p.size:
        j = p[i] * 2
        if 0 <= j < z.size:
            z[j] = i


# WRONG: race-free
@tc.simt(block=64, requires="nondecreasing(p) and p >= 0")
def scaled_segments(z: Tensor[Mut, i32, Dyn], p: Tensor[Shared, i64, Dyn]) -> None:
    i = cuda.grid(1)
    if i + 1 < p.size:
        for k in range(p[i] * 4, p[i + 1] * 4):
            if 0 <= k < z.size:
                z[k] = i


# RIGHT: race-free in-bounds
@tc.simt(block=64, requires="nondecreasing(p) and p >= 0")
def plain_segments(z: Tensor[Mut, i32, Dyn], p: Tensor[Shared, i64, Dyn]) -> None:
    i = cuda.grid(1)
    if i + 1 < p.size:
        for k in range(p[i], p[i + 1]):
            if 0 <= k < z.size:
                z[k] = i


# RIGHT: race-free
@cuda.jit
def rows_of_a_packed_triangle(full, packed):
    i = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, i + 1, cuda.blockDim.x):
        packed[i * (i + 1) // 2 + j] = full[i, j]


# RIGHT: race-free
@cuda.jit
def a_triangle_without_its_diagonal(full, packed, n):
    i, j = cuda.grid(2)
    if i < n and j < i:
        packed[i * (i - 1) // 2 + j] = full[i, j]


# RIGHT: race-free
@cuda.jit
def a_triangle_by_squares(full, packed):
    i = cuda.grid(1)
    if i < full.shape[0]:
        for j in range(i + 1):
            packed[(i * i + i) // 2 + j] = full[i, j]


# WRONG: race-free
@cuda.jit
def a_triangle_with_rows_too_long(full, packed):
    i = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, i + 2, cuda.blockDim.x):
        packed[i * (i + 1) // 2 + j] = full[i, j]


# WRONG: race-free
@cuda.jit
def a_triangle_with_rows_too_near(full, packed, n):
    i, j = cuda.grid(2)
    if i < n and j <= i:
        packed[i * (i - 1) // 2 + j] = full[i, j]


# WRONG: shared-initialised
@cuda.jit
def element_that_a_value_chose(a, z):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
        v = s[0] + 1
        s[v % 8] = t
    cuda.syncthreads()
    if t < z.size:
        z[t] = s[t % 8]


# RIGHT: shared-initialised
@cuda.jit
def element_that_no_value_chose(a, z):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t == 0:
        for i in range(8):
            s[i] = 0
        v = s[0] + 1
        s[v % 8] = t
    cuda.syncthreads()
    if t < z.size:
        z[t] = s[t % 8]


# WRONG: shared-initialised
@cuda.jit
def neighbour_that_drew_another_ticket(a, z):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    old = cuda.atomic.add(a, 0, 1)
    if old > 0 and t < 32:
        s[t] = t
    cuda.syncthreads()
    if old > 0 and t < 31:
        z[t] = s[t + 1]


# RIGHT: shared-initialised
@cuda.jit
def own_element_by_own_ticket(a, z):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    old = cuda.atomic.add(a, 0, 1)
    if old > 0 and t < 32:
        s[t] = t
    cuda.syncthreads()
    if old > 0 and t < 32:
        z[t] = s[t]


# WRONG: shared-initialised
@cuda.jit
def written_before_a_barrier_that_some_miss(a, z, n):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if cuda.grid(1) < n:
        cuda.syncthreads()
    if t == 0:
        s[0] = t
    cuda.syncthreads()
    if t < z.size:
        z[t] = s[0]
