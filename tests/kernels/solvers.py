"""Transforms, eliminations, dynamic programming: kernels of well-known shapes for the tests of the prover, read as text.

The line above each decorator is its label, as `tests/score.py` reads it.
"""

import math

import numpy as np
from numba import cuda, float32

FLT = np.float32


# EXPECT: safe
@cuda.jit
def fft_radix2_shared(x):
    re = cuda.shared.array(64, float32)
    im = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    re[t] = x[t, 0]
    im[t] = x[t, 1]
    re[t + 32] = x[t + 32, 0]
    im[t + 32] = x[t + 32, 1]
    cuda.syncthreads()
    half = 1
    while half < 64:
        pos = t % half
        a = (t // half) * 2 * half + pos
        b = a + half
        ang = -math.pi * pos / half
        wr = math.cos(ang)
        wi = math.sin(ang)
        br = re[b] * wr - im[b] * wi
        bi = re[b] * wi + im[b] * wr
        re[b] = re[a] - br
        im[b] = im[a] - bi
        re[a] += br
        im[a] += bi
        cuda.syncthreads()
        half *= 2
    x[t, 0] = re[t]
    x[t, 1] = im[t]
    x[t + 32, 0] = re[t + 32]
    x[t + 32, 1] = im[t + 32]


fft_radix2_shared[1, 32](np.ones((64, 2), FLT))


# EXPECT: safe
@cuda.jit
def walsh_hadamard(x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 64] = x[t + 64]
    cuda.syncthreads()
    h = 64
    while h >= 1:
        k = t & (h - 1)
        a = ((t - k) << 1) + k
        u, v = s[a], s[a + h]
        s[a] = u + v
        s[a + h] = u - v
        cuda.syncthreads()
        h >>= 1
    x[t] = s[t]
    x[t + 64] = s[t + 64]


walsh_hadamard[1, 64](np.ones(128, FLT))


# EXPECT: safe
@cuda.jit
def lu_any_size(a, n):
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    for k in range(n - 1):
        if k < i < n and j == k:
            a[i, k] /= a[k, k]
        cuda.syncthreads()
        if k < i < n and k < j < n:
            a[i, j] -= a[i, k] * a[k, j]
        cuda.syncthreads()


lu_any_size[1, (16, 16)](np.ones((12, 12), FLT), 12)


# EXPECT: safe
@cuda.jit
def cholesky_columns(a):
    s = cuda.shared.array((32, 32), float32)
    t = cuda.threadIdx.x
    for j in range(32):
        s[t, j] = a[t, j]
    cuda.syncthreads()
    for k in range(32):
        if t == k:
            s[k, k] = math.sqrt(s[k, k])
        cuda.syncthreads()
        if t > k:
            s[t, k] /= s[k, k]
        cuda.syncthreads()
        if t > k:
            for j in range(k + 1, t + 1):
                s[t, j] -= s[t, k] * s[j, k]
        cuda.syncthreads()
    for j in range(32):
        a[t, j] = s[t, j]


cholesky_columns[1, 32](np.ones((32, 32), FLT))


# EXPECT: safe
@cuda.jit
def gauss_jordan_rows(m, n):
    r = cuda.threadIdx.x
    for k in range(n):
        f = float32(0.0)
        if r < n and r != k:
            f = m[r, k] / m[k, k]
        cuda.syncthreads()
        if r < n and r != k:
            for c in range(k, n + 1):
                m[r, c] -= f * m[k, c]
        cuda.syncthreads()


gauss_jordan_rows[1, 32](np.ones((20, 21), FLT), 20)


# EXPECT: safe
@cuda.jit
def forward_substitution(low, b):
    t = cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    s[t] = b[t]
    cuda.syncthreads()
    for k in range(64):
        if t == k:
            s[k] /= low[k, k]
        cuda.syncthreads()
        if t > k:
            s[t] -= low[t, k] * s[k]
        cuda.syncthreads()
    b[t] = s[t]


forward_substitution[1, 64](np.ones((64, 64), FLT), np.ones(64, FLT))


# EXPECT: safe
@cuda.jit
def thomas_batched(a, b, c, d, n):
    k = cuda.grid(1)
    if k < d.shape[0]:
        for i in range(1, n):
            w = a[k, i] / b[k, i - 1]
            b[k, i] -= w * c[k, i - 1]
            d[k, i] -= w * d[k, i - 1]
        d[k, n - 1] /= b[k, n - 1]
        for i in range(n - 2, -1, -1):
            d[k, i] = (d[k, i] - c[k, i] * d[k, i + 1]) / b[k, i]


z = np.ones((40, 10), FLT)
thomas_batched[2, 32](z, z.copy(), z.copy(), z.copy(), 10)


# EXPECT: safe
@cuda.jit
def floyd_warshall_step(dist, k):
    i, j = cuda.grid(2)
    n = dist.shape[0]
    if i < n and j < n and i != k and j != k:
        via = dist[i, k] + dist[k, j]
        if via < dist[i, j]:
            dist[i, j] = via


floyd_warshall_step[(2, 2), (16, 16)](np.ones((30, 30), FLT), 3)


# EXPECT: safe
@cuda.jit
def floyd_warshall_block(dist):
    s = cuda.shared.array((16, 16), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    s[i, j] = dist[i, j]
    cuda.syncthreads()
    for k in range(16):
        via = s[i, k] + s[k, j]
        cuda.syncthreads()
        if via < s[i, j]:
            s[i, j] = via
        cuda.syncthreads()
    dist[i, j] = s[i, j]


floyd_warshall_block[1, (16, 16)](np.ones((16, 16), FLT))


# EXPECT: safe
@cuda.jit
def ell_spmv(values, columns, x, y):
    r = cuda.grid(1)
    if r < y.size:
        acc = float32(0.0)
        for k in range(values.shape[0]):
            c = columns[k, r]
            if 0 <= c < x.size:
                acc += values[k, r] * x[c]
        y[r] = acc


ell_spmv[2, 32](np.ones((5, 50), FLT), np.zeros((5, 50), np.int32), np.ones(50, FLT), np.zeros(50, FLT))


# EXPECT: safe
@cuda.jit
def softmax_row(x, out):
    s = cuda.shared.array(128, float32)
    row = cuda.blockIdx.x
    t = cuda.threadIdx.x
    n = x.shape[1]
    m = float32(-1e30)
    for c in range(t, n, cuda.blockDim.x):
        m = max(m, x[row, c])
    s[t] = m
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            s[t] = max(s[t], s[t + half])
        cuda.syncthreads()
        half //= 2
    top = s[0]
    cuda.syncthreads()
    z = float32(0.0)
    for c in range(t, n, cuda.blockDim.x):
        z += math.exp(x[row, c] - top)
    s[t] = z
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    for c in range(t, n, cuda.blockDim.x):
        out[row, c] = math.exp(x[row, c] - top) / s[0]


softmax_row[8, 128](np.ones((8, 300), FLT), np.zeros((8, 300), FLT))


# EXPECT: safe
@cuda.jit
def triangular_solve_blocks(low, b, n):
    t = cuda.threadIdx.x
    for k in range(n):
        if t == 0:
            b[k] = b[k] / low[k, k]
        cuda.syncthreads()
        for i in range(k + 1 + t, n, cuda.blockDim.x):
            b[i] -= low[i, k] * b[k]
        cuda.syncthreads()


triangular_solve_blocks[1, 32](np.ones((50, 50), FLT), np.ones(50, FLT), 50)


# EXPECT: safe
@cuda.jit
def merge_path_pairs(x, out, width):
    i = cuda.grid(1)
    start = 2 * width * i
    if start < x.size:
        mid = min(start + width, x.size)
        stop = min(start + 2 * width, x.size)
        a, b = start, mid
        for k in range(start, stop):
            if a < mid and (b >= stop or x[a] <= x[b]):
                out[k] = x[a]
                a += 1
            else:
                out[k] = x[b]
                b += 1


merge_path_pairs[1, 64](np.ones(256, FLT), np.zeros(256, FLT), 4)


# EXPECT: safe
@cuda.jit
def lcs_diagonals(a, b, dp):
    t = cuda.threadIdx.x
    n, m = a.size, b.size
    for d in range(n + m - 1):
        i = t
        j = d - i
        if i < n and 0 <= j < m:
            if a[i] == b[j]:
                dp[i + 1, j + 1] = dp[i, j] + 1
            else:
                dp[i + 1, j + 1] = max(dp[i, j + 1], dp[i + 1, j])
        cuda.syncthreads()


lcs_diagonals[1, 64](np.ones(50, np.int32), np.ones(40, np.int32), np.zeros((51, 41), np.int32))


# EXPECT: safe
@cuda.jit
def pascal_in_place(row, n):
    t = cuda.threadIdx.x
    for k in range(1, n):
        v = 0
        if 0 < t < k:
            v = row[t - 1] + row[t]
        cuda.syncthreads()
        if 0 < t < k:
            row[t] = v
        elif t == k:
            row[t] = 1
        cuda.syncthreads()


pascal_in_place[1, 64](np.ones(64, np.int64), 30)


# EXPECT: safe
@cuda.jit
def batched_small_solve(a, b):
    s = cuda.shared.array((4, 4, 5), float32)
    q = cuda.threadIdx.z
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    k0 = cuda.blockIdx.x * 4 + q
    if k0 < a.shape[0]:
        s[q, i, j] = a[k0, i, j]
        if j == 0:
            s[q, i, 4] = b[k0, i]
    cuda.syncthreads()
    for k in range(4):
        f = float32(0.0)
        if i != k:
            f = s[q, i, k] / s[q, k, k]
        cuda.syncthreads()
        if i != k:
            s[q, i, j] -= f * s[q, k, j]
            if j == 0:
                s[q, i, 4] -= f * s[q, k, 4]
        cuda.syncthreads()
    if k0 < b.shape[0] and k0 < a.shape[0] and j == 0:
        b[k0, i] = s[q, i, 4] / s[q, i, i]


batched_small_solve[3, (4, 4, 4)](np.ones((10, 4, 4), FLT), np.ones((10, 4), FLT))


# EXPECT: safe
@cuda.jit
def wavefront_rows(x):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    rows = x.shape[0]
    s[0, t] = x[0, t]
    cuda.syncthreads()
    for r in range(1, rows):
        best = s[(r - 1) % 2, t]
        if t > 0:
            best = min(best, s[(r - 1) % 2, t - 1])
        if t < 63:
            best = min(best, s[(r - 1) % 2, t + 1])
        s[r % 2, t] = x[r, t] + best
        cuda.syncthreads()
    x[rows - 1, t] = s[(rows - 1) % 2, t]


wavefront_rows[1, 64](np.ones((20, 64), FLT))
