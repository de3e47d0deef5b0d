"""Queues, grids that meet, shared memory carved up, helpers: kernels of well-known shapes for the tests of the prover, read as text.

The line above each decorator is its label, as `tests/score.py` reads it.
"""

import numpy as np
from numba import cuda, float32, int32

FLT = np.float32


# EXPECT: safe
@cuda.jit
def queue_by_ticket(work, out, head):
    while True:
        k = cuda.atomic.add(head, 0, 1)
        if k >= work.size:
            break
        out[k] = work[k] * 2


queue_by_ticket[2, 32](np.ones(100, FLT), np.zeros(100, FLT), np.zeros(1, np.int32))


# EXPECT: safe
@cuda.jit
def queue_by_block_ticket(work, out, head):
    tile = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    while True:
        if t == 0:
            tile[0] = cuda.atomic.add(head, 0, 1)
        cuda.syncthreads()
        k = tile[0]
        cuda.syncthreads()
        if k * cuda.blockDim.x >= work.size:
            break
        i = k * cuda.blockDim.x + t
        if i < work.size:
            out[i] = work[i] + 1


queue_by_block_ticket[2, 32](np.ones(100, FLT), np.zeros(100, FLT), np.zeros(1, np.int32))


# EXPECT: safe
@cuda.jit
def last_block_sums(x, partial, total, done):
    s = cuda.shared.array(64, float32)
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]
        cuda.threadfence()
        ticket = cuda.atomic.add(done, 0, 1)
        last[0] = 1 if ticket == cuda.gridDim.x - 1 else 0
    cuda.syncthreads()
    if last[0] == 1:
        cuda.threadfence()
        if t == 0:
            acc = float32(0.0)
            for b in range(cuda.gridDim.x):
                acc += partial[b]
            total[0] = acc


last_block_sums[4, 64](np.ones(256, FLT), np.zeros(4, FLT), np.zeros(1, FLT), np.zeros(1, np.int32))


# EXPECT: safe
@cuda.jit
def cooperative_jacobi(a, b, rounds):
    g = cuda.cg.this_grid()
    n = a.size
    for k in range(rounds):
        for i in range(cuda.grid(1), n, cuda.gridsize(1)):
            if 0 < i < n - 1:
                if k % 2 == 0:
                    b[i] = 0.5 * (a[i - 1] + a[i + 1])
                else:
                    a[i] = 0.5 * (b[i - 1] + b[i + 1])
        g.sync()


cooperative_jacobi[2, 64](np.ones(300, FLT), np.zeros(300, FLT), 6)


# EXPECT: safe
@cuda.jit
def carve_dynamic(x, y, n):
    pool = cuda.shared.array(0, float32)
    first = pool[:n]
    second = pool[n : 2 * n]
    t = cuda.threadIdx.x
    if t < n:
        first[t] = x[t]
        second[t] = x[n - 1 - t]
    cuda.syncthreads()
    if t < n:
        y[t] = first[n - 1 - t] + second[t]


carve_dynamic[1, 64, 0, 2 * 64 * 4](np.ones(64, FLT), np.zeros(64, FLT), 64)


# EXPECT: safe
@cuda.jit
def carve_by_offset(x, y):
    pool = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    n = cuda.blockDim.x
    pool[t] = x[t]
    pool[n + t] = y[t]
    cuda.syncthreads()
    x[t] = pool[n + (n - 1 - t)]
    y[t] = pool[n - 1 - t]


carve_by_offset[1, 64, 0, 2 * 64 * 4](np.ones(64, FLT), np.zeros(64, FLT))


# EXPECT: safe
@cuda.jit
def producer_then_consumer(x, y):
    box = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    for k in range(0, x.size, 32):
        if t < 32 and k + t < x.size:
            box[t] = x[k + t]
        cuda.syncthreads()
        if t >= 32 and k + t - 32 < y.size and k + t - 32 < x.size:
            y[k + t - 32] = box[63 - t] if k + 63 - t < x.size else 0.0
        cuda.syncthreads()


producer_then_consumer[1, 64](np.ones(100, FLT), np.zeros(100, FLT))


# EXPECT: safe
@cuda.jit
def ring_of_stages(x, y):
    ring = cuda.shared.array((3, 32), float32)
    t = cuda.threadIdx.x
    n = x.size // 32
    for s in range(2):
        if s < n:
            ring[s, t] = x[s * 32 + t]
    cuda.syncthreads()
    for k in range(n):
        if k + 2 < n:
            ring[(k + 2) % 3, t] = x[(k + 2) * 32 + t]
        y[k * 32 + t] = ring[k % 3, 31 - t]
        cuda.syncthreads()


ring_of_stages[1, 32](np.ones(320, FLT), np.zeros(320, FLT))


# EXPECT: safe
@cuda.jit
def monte_carlo(hits, n):
    i = cuda.grid(1)
    state = i * 1103515245 + 12345
    count = 0
    for _ in range(n):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        u = state / 2147483648.0
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        v = state / 2147483648.0
        if u * u + v * v < 1.0:
            count += 1
    if i < hits.size:
        hits[i] = count


monte_carlo[2, 64](np.zeros(128, np.int32), 10)


@cuda.jit(device=True)
def load_tile(src, dst, base):
    t = cuda.threadIdx.x
    if base + t < src.size:
        dst[t] = src[base + t]
    else:
        dst[t] = 0.0
    cuda.syncthreads()


@cuda.jit(device=True)
def block_sum(s):
    t = cuda.threadIdx.x
    h = 32
    while h > 0:
        if t < h:
            s[t] += s[t + h]
        cuda.syncthreads()
        h //= 2
    return s[0]


# EXPECT: safe
@cuda.jit
def helpers_with_barriers(x, out):
    s = cuda.shared.array(64, float32)
    total = float32(0.0)
    for base in range(0, x.size, 64):
        load_tile(x, s, base)
        total += block_sum(s)
        cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        out[0] = total


helpers_with_barriers[1, 64](np.ones(300, FLT), np.zeros(1, FLT))


# EXPECT: safe
@cuda.jit
def spinlock_list(x, total, lock):
    i = cuda.grid(1)
    if i < x.size:
        while cuda.atomic.compare_and_swap(lock, 0, 1) != 0:
            pass
        cuda.threadfence()
        total[0] += x[i]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


spinlock_list[2, 1](np.ones(2, FLT), np.zeros(1, FLT), np.zeros(1, np.int32))


# EXPECT: safe
@cuda.jit
def cooperative_reduce(x, partial, out):
    g = cuda.cg.this_grid()
    i = cuda.grid(1)
    n = cuda.gridsize(1)
    acc = float32(0.0)
    for k in range(i, x.size, n):
        acc += x[k]
    partial[i] = acc
    g.sync()
    step = n // 2
    while step > 0:
        if i < step:
            partial[i] += partial[i + step]
        g.sync()
        step //= 2
    if i == 0:
        out[0] = partial[0]


cooperative_reduce[4, 64](np.ones(1000, FLT), np.zeros(256, FLT), np.zeros(1, FLT))


# EXPECT: safe
@cuda.jit
def slots_reserved_by_counts(counts, out, counter):
    i = cuda.grid(1)
    if i < counts.size:
        n = max(counts[i], 0)
        first = cuda.atomic.add(counter, 0, n)
        for k in range(n):
            if 0 <= first + k < out.size:
                out[first + k] = i


slots_reserved_by_counts[2, 32](np.arange(64), np.zeros(5000, np.int64), np.zeros(1, np.int64))


# EXPECT: safe
@cuda.jit
def slots_reserved_where_counts_are_positive(counts, out, counter):
    i = cuda.grid(1)
    if i < counts.size and counts[i] > 0:
        first = cuda.atomic.add(counter, 0, counts[i])
        for k in range(counts[i]):
            if 0 <= first + k < out.size:
                out[first + k] = i


slots_reserved_where_counts_are_positive[2, 32](np.arange(64), np.zeros(5000, np.int64), np.zeros(1, np.int64))
