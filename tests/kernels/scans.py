"""Scans, reductions, sorts and histograms: kernels of well-known shapes for the tests of the prover, read as text.

The line above each decorator is its label, as `tests/score.py` reads it.
"""

import numpy as np
from numba import cuda, float32, int32

N = 64
FULL = 0xFFFFFFFF
FLT = np.float32


# EXPECT: safe
@cuda.jit
def hillis_steele_two_rows(x, out):
    buf = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    src = 0
    buf[src, t] = x[t]
    cuda.syncthreads()
    d = 1
    while d < N:
        dst = 1 - src
        if t >= d:
            buf[dst, t] = buf[src, t] + buf[src, t - d]
        else:
            buf[dst, t] = buf[src, t]
        cuda.syncthreads()
        src = dst
        d *= 2
    out[t] = buf[src, t]


hillis_steele_two_rows[1, N](np.ones(N, FLT), np.zeros(N, FLT))


# EXPECT: safe
@cuda.jit
def blelloch_generic(x, n):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[2 * t] = x[2 * t]
    s[2 * t + 1] = x[2 * t + 1]
    offset = 1
    d = n >> 1
    while d > 0:
        cuda.syncthreads()
        if t < d:
            a = offset * (2 * t + 1) - 1
            b = offset * (2 * t + 2) - 1
            s[b] += s[a]
        offset *= 2
        d >>= 1
    cuda.syncthreads()
    x[2 * t] = s[2 * t]
    x[2 * t + 1] = s[2 * t + 1]


blelloch_generic[1, 32, 0, 64 * 4](np.ones(64, FLT), 64)


# EXPECT: safe
@cuda.jit
def interleaved_reduce(x, out):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        k = 2 * step * t
        if k + step < cuda.blockDim.x:
            s[k] += s[k + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


interleaved_reduce[4, 128](np.ones(512, FLT), np.zeros(4, FLT))


# EXPECT: safe
@cuda.jit
def odd_count_reduce(x, out, n):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t] if t < n else 0.0
    m = cuda.blockDim.x
    cuda.syncthreads()
    while m > 1:
        half = (m + 1) // 2
        if t + half < m:
            s[t] += s[t + half]
        cuda.syncthreads()
        m = half
    if t == 0:
        out[0] = s[0]


odd_count_reduce[1, 100](np.ones(100, FLT), np.zeros(1, FLT), 100)


# EXPECT: safe
@cuda.jit
def argmax_block(x, out_v, out_i):
    v = cuda.shared.array(256, float32)
    at = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    best = float32(-1e30)
    where = -1
    for i in range(t, x.size, cuda.blockDim.x):
        if x[i] > best:
            best = x[i]
            where = i
    v[t] = best
    at[t] = where
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half:
        if t < half and v[t + half] > v[t]:
            v[t] = v[t + half]
            at[t] = at[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out_v[0] = v[0]
        out_i[0] = at[0]


argmax_block[1, 256](np.ones(1000, FLT), np.zeros(1, FLT), np.zeros(1, np.int32))


# EXPECT: safe
@cuda.jit
def warp_scan_block_scan(x, out):
    sums = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    lane = t & 31
    w = t >> 5
    g = cuda.grid(1)
    v = x[g] if g < x.size else 0
    d = 1
    while d < 32:
        u = cuda.shfl_up_sync(FULL, v, d)
        if lane >= d:
            v += u
        d <<= 1
    if lane == 31:
        sums[w] = v
    cuda.syncthreads()
    if w == 0:
        q = sums[lane] if lane < cuda.blockDim.x // 32 else 0
        d = 1
        while d < 32:
            u = cuda.shfl_up_sync(FULL, q, d)
            if lane >= d:
                q += u
            d <<= 1
        sums[lane] = q
    cuda.syncthreads()
    if w > 0:
        v += sums[w - 1]
    if g < out.size:
        out[g] = v


warp_scan_block_scan[3, 128](np.ones(300, np.int32), np.zeros(300, np.int32))


# EXPECT: safe
@cuda.jit
def bitonic_global_pass(x, j, k):
    i = cuda.grid(1)
    p = i ^ j
    if p > i and p < x.size:
        if (i & k) == 0:
            if x[i] > x[p]:
                a = x[i]
                x[i] = x[p]
                x[p] = a
        else:
            if x[i] < x[p]:
                a = x[i]
                x[i] = x[p]
                x[p] = a


# EXPECT: safe
@cuda.jit
def bitonic_half_threads(x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 64] = x[t + 64]
    k = 2
    while k <= 128:
        j = k // 2
        while j > 0:
            cuda.syncthreads()
            lo = 2 * j * (t // j) + t % j
            hi = lo + j
            up = (lo & k) == 0
            if (s[lo] > s[hi]) == up:
                a = s[lo]
                s[lo] = s[hi]
                s[hi] = a
            j //= 2
        k *= 2
    cuda.syncthreads()
    x[t] = s[t]
    x[t + 64] = s[t + 64]


bitonic_half_threads[1, 64](np.ones(128, FLT))


# EXPECT: safe
@cuda.jit
def odd_even_sort(x, n):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    if t < n:
        s[t] = x[t]
    cuda.syncthreads()
    for phase in range(n):
        if t % 2 == phase % 2 and t + 1 < n and s[t] > s[t + 1]:
            a = s[t]
            s[t] = s[t + 1]
            s[t + 1] = a
        cuda.syncthreads()
    if t < n:
        x[t] = s[t]


odd_even_sort[1, 256](np.ones(200, FLT), 200)


# EXPECT: safe
@cuda.jit
def digit_counts(keys, counts, shift):
    local = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        local[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        cuda.atomic.add(local, (keys[i] >> shift) & 15, 1)
    cuda.syncthreads()
    if t < 16:
        counts[t * cuda.gridDim.x + cuda.blockIdx.x] = local[t]


digit_counts[4, 64](np.ones(1000, np.int32), np.zeros(64, np.int32), 4)


# EXPECT: safe
@cuda.jit
def histogram_per_warp(data, out):
    h = cuda.shared.array((4, 32), int32)
    t = cuda.threadIdx.x
    w = t // 32
    lane = t % 32
    h[w, lane] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        cuda.atomic.add(h, (w, data[i] % 32), 1)
    cuda.syncthreads()
    if w == 0:
        total = 0
        for k in range(4):
            total += h[k, lane]
        cuda.atomic.add(out, lane, total)


histogram_per_warp[4, 128](np.ones(1000, np.int32), np.zeros(32, np.int32))


# EXPECT: safe
@cuda.jit
def segmented_head_flags(x, flag, out):
    v = cuda.shared.array(64, float32)
    f = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    v[t] = x[t]
    f[t] = flag[t]
    cuda.syncthreads()
    d = 1
    while d < 64:
        nv = v[t]
        nf = f[t]
        if t >= d and nf == 0:
            nv += v[t - d]
            nf |= f[t - d]
        cuda.syncthreads()
        v[t] = nv
        f[t] = nf
        cuda.syncthreads()
        d *= 2
    out[t] = v[t]


segmented_head_flags[1, 64](np.ones(64, FLT), np.zeros(64, np.int32), np.zeros(64, FLT))


# EXPECT: safe
@cuda.jit
def block_sums_then_add(x, sums):
    carry = cuda.shared.array(1, float32)
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t == 0:
        carry[0] = 0.0
    cuda.syncthreads()
    for base in range(0, x.size, cuda.blockDim.x):
        i = base + t
        s[t] = x[i] if i < x.size else 0.0
        cuda.syncthreads()
        d = 1
        while d < 64:
            u = s[t - d] if t >= d else float32(0.0)
            cuda.syncthreads()
            s[t] += u
            cuda.syncthreads()
            d *= 2
        if i < x.size:
            sums[i] = carry[0] + s[t]
        cuda.syncthreads()
        if t == 63:
            carry[0] += s[63]
        cuda.syncthreads()


block_sums_then_add[1, 64](np.ones(300, FLT), np.zeros(300, FLT))
