"""Twins: a right kernel and a wrong one of the same shape, for the tests of the prover, read as text.

The line above each decorator is its label, as `tests/score.py` reads it.
"""

import numpy as np
from numba import cuda, float32, int32


# EXPECT: divergence
@cuda.jit
def early_bad(a):
    s = cuda.shared.array(64, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if i >= a.size:
        return
    s[t] = a[i]
    cuda.syncthreads()
    a[i] = s[63 - t]


# EXPECT: safe
@cuda.jit
def early_ok(a, n):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if n < 64:
        return
    s[t] = a[t]
    cuda.syncthreads()
    a[t] = s[63 - t]


# EXPECT: safe
@cuda.jit
def early_block_ok(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x * 64
    if b + 64 > a.size:
        return
    s[t] = a[b + t]
    cuda.syncthreads()
    a[b + t] = s[63 - t]


# EXPECT: divergence
@cuda.jit
def break_bad(a):
    t = cuda.threadIdx.x
    for k in range(8):
        if k > t:
            break
        cuda.syncthreads()
    a[t] = t


# EXPECT: safe
@cuda.jit
def flag_break_ok(a):
    f = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    for k in range(8):
        if t == 0:
            f[0] = a[k] > 0
        cuda.syncthreads()
        if f[0] != 0:
            break
        cuda.syncthreads()


# EXPECT: race array=f kind=shared
@cuda.jit
def flag_break_bad(a):
    f = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    for k in range(8):
        if t == 0:
            f[0] = a[k] > 0
        cuda.syncthreads()
        if f[0] != 0:
            break


# EXPECT: safe
@cuda.jit
def data_uniform_ok(a, n):
    t = cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    s[t] = 0.0
    if n[0] > 3:
        cuda.syncthreads()
        a[t] = s[63 - t]


# EXPECT: race array=n kind=global
@cuda.jit
def data_uniform_bad(a, n):
    t = cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    s[t] = 0.0
    if n[0] > 3:
        cuda.syncthreads()
        a[t] = s[63 - t]
    n[0] = 0


# EXPECT: divergence
@cuda.jit
def data_thread_bad(a, n):
    t = cuda.threadIdx.x
    if n[t] > 3:
        cuda.syncthreads()
    a[t] = t


# EXPECT: safe
@cuda.jit
def double_ok(a):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    cur = 0
    s[0, t] = a[t]
    cuda.syncthreads()
    for _k in range(10):
        s[1 - cur, t] = s[cur, (t + 1) % 64]
        cur = 1 - cur
        cuda.syncthreads()
    a[t] = s[cur, t]


# EXPECT: race array=s kind=shared
@cuda.jit
def double_bad(a):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    cur = 0
    s[0, t] = a[t]
    cuda.syncthreads()
    for _k in range(10):
        s[1 - cur, t] = s[cur, (t + 1) % 64]
        cur = 1 - cur
    a[t] = s[cur, t]


# EXPECT: race array=s kind=shared
@cuda.jit
def double_half_bad(a):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    cur = 0
    s[0, t] = a[t]
    cuda.syncthreads()
    for k in range(10):
        s[1 - cur, t] = s[cur, (t + 1) % 64]
        cur = 1 - cur
        if k % 2 == 0:
            cuda.syncthreads()
    a[t] = s[cur, t]


# EXPECT: safe
@cuda.jit
def triple_ok(a, n):
    s = cuda.shared.array((3, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = a[t]
    cuda.syncthreads()
    for k in range(n):
        s[(k + 1) % 3, t] = s[k % 3, (t + 1) % 64]
        cuda.syncthreads()
    a[t] = s[n % 3, t]


# EXPECT: race array=s kind=shared
@cuda.jit
def triple_bad(a, n):
    s = cuda.shared.array((3, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = a[t]
    cuda.syncthreads()
    for k in range(n):
        s[(k + 1) % 3, t] = s[k % 3, (t + 1) % 64]
        if k % 3 != 2:
            cuda.syncthreads()
    a[t] = s[n % 3, t]


@cuda.jit(device=True)
def put(arr, i, v):
    arr[i] = v


@cuda.jit(device=True)
def tail(arr):
    return arr[1:]


@cuda.jit(device=True)
def bar_if(c):
    if c:
        cuda.syncthreads()


@cuda.jit(device=True)
def pick(a, b, c):
    return a if c else b


# EXPECT: safe
@cuda.jit
def helper_ok(a):
    put(a, cuda.grid(1), 1.0)


# EXPECT: race array=a kind=global
@cuda.jit
def helper_bad(a):
    i = cuda.grid(1)
    put(a, i // 2, i)


# EXPECT: race array=a kind=global
@cuda.jit
def helper_view_bad(a):
    i = cuda.grid(1)
    if i < a.size - 1:
        v = tail(a)
        v[i] = a[i]


# EXPECT: divergence
@cuda.jit
def helper_bar_bad(a):
    t = cuda.threadIdx.x
    bar_if(t < 32)
    a[t] = 1


# EXPECT: safe
@cuda.jit
def helper_bar_ok(a, n):
    t = cuda.threadIdx.x
    bar_if(n > 3)
    a[t] = 1


# EXPECT: race array=h kind=global
@cuda.jit
def mixed_bad(a, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, a[i] % 16, 1)
    if i < 16:
        h[i] = 0


# EXPECT: safe
@cuda.jit
def mixed_ok(a, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, a[i] % 16, 1)


# EXPECT: race array=h kind=global
@cuda.jit
def atomic_read_bad(h, out):
    i = cuda.grid(1)
    cuda.atomic.add(h, 0, 1)
    out[i] = h[0]


# EXPECT: safe
@cuda.jit
def hist_ok(a, h):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if t < 16:
        s[t] = 0
    cuda.syncthreads()
    if i < a.size:
        cuda.atomic.add(s, a[i] & 15, 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(h, t, s[t])


# EXPECT: race array=s kind=shared
@cuda.jit
def hist_bad(a, h):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if t < 16:
        s[t] = 0
    cuda.syncthreads()
    if i < a.size:
        cuda.atomic.add(s, a[i] & 15, 1)
    if t < 16:
        cuda.atomic.add(h, t, s[t])


# EXPECT: safe
@cuda.jit
def grid_ok(a, b):
    i = cuda.grid(1)
    g = cuda.cg.this_grid()
    a[i] = i
    g.sync()
    b[i] = a[cuda.gridsize(1) - 1 - i]


# EXPECT: race array=a kind=global
@cuda.jit
def grid_bad(a, b):
    i = cuda.grid(1)
    a[i] = i
    cuda.syncthreads()
    b[i] = a[cuda.gridsize(1) - 1 - i]


# EXPECT: divergence
@cuda.jit
def grid_div_bad(a, b):
    i = cuda.grid(1)
    g = cuda.cg.this_grid()
    if cuda.blockIdx.x == 0:
        g.sync()
    a[i] = 1


# EXPECT: safe
@cuda.jit
def grid_iter_ok(a, b, n):
    i = cuda.grid(1)
    g = cuda.cg.this_grid()
    for _k in range(n):
        if 0 < i < a.size - 1:
            b[i] = a[i - 1] + a[i + 1]
        g.sync()
        if 0 < i < a.size - 1:
            a[i] = b[i]
        g.sync()


# EXPECT: race array=a kind=global
@cuda.jit
def grid_iter_bad(a, b, n):
    i = cuda.grid(1)
    g = cuda.cg.this_grid()
    for _k in range(n):
        if 0 < i < a.size - 1:
            b[i] = a[i - 1] + a[i + 1]
        g.sync()
        if 0 < i < a.size - 1:
            a[i] = b[i]


# EXPECT: safe
@cuda.jit
def shfl_ok(a):
    t = cuda.threadIdx.x
    v = a[t]
    for k in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 1 << (4 - k))
    if t % 32 == 0:
        a[t] = v


# EXPECT: safe
@cuda.jit
def shfl_half_ok(a):
    t = cuda.threadIdx.x
    v = a[t]
    if t % 32 < 16:
        v += cuda.shfl_down_sync(0xFFFF, v, 8)
    a[t] = v


# EXPECT: race array=s kind=shared
@cuda.jit
def warp_nosync_bad(a):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    a[t] = s[31 - t]


# EXPECT: safe
@cuda.jit
def warp_sync_ok(a):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncwarp()
    a[t] = s[31 - t]


# EXPECT: race array=s kind=shared
@cuda.jit
def warp_cross_bad(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncwarp()
    a[t] = s[63 - t]


# EXPECT: race array=s kind=shared
@cuda.jit
def warp_mask_bad(a):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    if t < 16:
        cuda.syncwarp(0xFFFF)
    a[t] = s[31 - t]


# EXPECT: safe
@cuda.jit
def warp_rows_ok(a):
    s = cuda.shared.array((4, 32), float32)
    t = cuda.threadIdx.x
    w = t // 32
    lane = t % 32
    s[w, lane] = a[t]
    cuda.syncwarp()
    a[t] = s[w, 31 - lane]


# EXPECT: race array=s kind=shared
@cuda.jit
def warp_rows_bad(a):
    s = cuda.shared.array((4, 32), float32)
    t = cuda.threadIdx.x
    w = t // 32
    lane = t % 32
    s[w, lane] = a[t]
    cuda.syncwarp()
    a[t] = s[(w + 1) % 4, lane]


# EXPECT: safe
@cuda.jit
def warp_2d_ok(a):
    s = cuda.shared.array((8, 16), float32)
    x = cuda.threadIdx.x
    y = cuda.threadIdx.y
    s[y, x] = a[y, x]
    cuda.syncwarp()
    a[y, x] = s[y ^ 1, x]


# EXPECT: race array=s kind=shared
@cuda.jit
def warp_2d_bad(a):
    s = cuda.shared.array((8, 16), float32)
    x = cuda.threadIdx.x
    y = cuda.threadIdx.y
    s[y, x] = a[y, x]
    cuda.syncwarp()
    a[y, x] = s[y ^ 2, x]


# EXPECT: safe
@cuda.jit
def vote_ok(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    if cuda.any_sync(0xFFFFFFFF, a[t] > 0):
        cuda.syncwarp()
        a[t] = s[t ^ 1]


# EXPECT: safe
@cuda.jit
def ballot_ok(a, out):
    t = cuda.threadIdx.x
    p = a[t] > 0
    b = cuda.ballot_sync(0xFFFFFFFF, p)
    k = cuda.popc(b & ((1 << t) - 1))
    if p:
        out[k] = a[t]


# EXPECT: race array=out kind=global
@cuda.jit
def ballot_bad(a, out):
    t = cuda.threadIdx.x
    p = a[t] > 0
    b = cuda.ballot_sync(0xFFFFFFFF, p)
    k = cuda.popc(b & ((1 << (t // 2)) - 1))
    if p:
        out[k] = t


# EXPECT: safe
@cuda.jit
def or_ok(a):
    t = cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    s[t] = a[t]
    if cuda.syncthreads_or(a[t] > 0):
        a[t] = s[63 - t]


# EXPECT: race array=s kind=shared
@cuda.jit
def or_bad(a):
    t = cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    if cuda.syncthreads_or(a[t] > 0):
        s[t] = a[t]
        a[t] = s[63 - t]


# EXPECT: safe
@cuda.jit
def hs_ok(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = 1
    while d < 64:
        v = s[t]
        if t >= d:
            v += s[t - d]
        cuda.syncthreads()
        s[t] = v
        cuda.syncthreads()
        d *= 2
    a[t] = s[t]


# EXPECT: race array=s kind=shared
@cuda.jit
def hs_bad(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = 1
    while d < 64:
        v = s[t]
        if t >= d:
            v += s[t - d]
        s[t] = v
        cuda.syncthreads()
        d *= 2
    a[t] = s[t]


# EXPECT: safe
@cuda.jit
def bl_ok(a):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[2 * t] = a[2 * t]
    s[2 * t + 1] = a[2 * t + 1]
    o = 1
    d = 32
    while d > 0:
        cuda.syncthreads()
        if t < d:
            s[o * (2 * t + 2) - 1] += s[o * (2 * t + 1) - 1]
        o *= 2
        d //= 2
    cuda.syncthreads()
    if t == 0:
        s[63] = 0
    cuda.syncthreads()
    a[2 * t] = s[2 * t]
    a[2 * t + 1] = s[2 * t + 1]


# EXPECT: safe
@cuda.jit
def tr_ok(a, b):
    s = cuda.shared.array((16, 17), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    gx = cuda.blockIdx.x * 16 + x
    gy = cuda.blockIdx.y * 16 + y
    if gy < a.shape[0] and gx < a.shape[1]:
        s[y, x] = a[gy, gx]
    cuda.syncthreads()
    ox = cuda.blockIdx.y * 16 + x
    oy = cuda.blockIdx.x * 16 + y
    if oy < b.shape[0] and ox < b.shape[1] and oy < a.shape[1] and ox < a.shape[0]:
        b[oy, ox] = s[x, y]


# EXPECT: race array=b kind=global
@cuda.jit
def tr_bad(a, b):
    s = cuda.shared.array((16, 17), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    gx = cuda.blockIdx.x * 16 + x
    gy = cuda.blockIdx.y * 16 + y
    if gy < a.shape[0] and gx < a.shape[1]:
        s[y, x] = a[gy, gx]
    cuda.syncthreads()
    oy = cuda.blockIdx.x * 16 + y
    if oy < b.shape[0] and x < b.shape[1]:
        b[oy, x] = s[x, y]


# EXPECT: safe
@cuda.jit
def halo_ok(a, b):
    s = cuda.shared.array(66, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = a.size
    if i < n:
        s[t + 1] = a[i]
    else:
        s[t + 1] = 0
    if t == 0:
        s[0] = a[i - 1] if i > 0 and i - 1 < n else 0
    if t == 63:
        s[65] = a[i + 1] if i + 1 < n else 0
    cuda.syncthreads()
    if i < n and i < b.size:
        b[i] = s[t] + s[t + 2]


# EXPECT: oob array=s
@cuda.jit
def halo_bad(a, b):
    s = cuda.shared.array(66, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = a.size
    if i < n:
        s[t + 1] = a[i]
    if t == 0:
        s[0] = 0
        s[65] = 0
    cuda.syncthreads()
    if i < n and i < b.size:
        b[i] = s[t] + s[t + 3]


# EXPECT: safe
@cuda.jit
def mm_ok(a, b, c):
    sa = cuda.shared.array((8, 8), float32)
    sb = cuda.shared.array((8, 8), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    j = cuda.blockIdx.x * 8 + x
    i = cuda.blockIdx.y * 8 + y
    acc = float32(0)
    for k in range((a.shape[1] + 7) // 8):
        sa[y, x] = a[i, k * 8 + x] if i < a.shape[0] and k * 8 + x < a.shape[1] else 0
        sb[y, x] = b[k * 8 + y, j] if k * 8 + y < b.shape[0] and j < b.shape[1] else 0
        cuda.syncthreads()
        for q in range(8):
            acc += sa[y, q] * sb[q, x]
        cuda.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = acc


# EXPECT: oob array=a
@cuda.jit
def mm_bad(a, b, c):
    sa = cuda.shared.array((8, 8), float32)
    sb = cuda.shared.array((8, 8), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    j = cuda.blockIdx.x * 8 + x
    i = cuda.blockIdx.y * 8 + y
    acc = float32(0)
    for k in range((a.shape[1] + 7) // 8):
        sa[y, x] = a[i, k * 8 + x] if i < a.shape[0] else 0
        sb[y, x] = b[k * 8 + y, j] if j < b.shape[1] else 0
        cuda.syncthreads()
        for q in range(8):
            acc += sa[y, q] * sb[q, x]
        cuda.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = acc


# EXPECT: race array=sa kind=shared
@cuda.jit
def mm_bad2(a, b, c):
    sa = cuda.shared.array((8, 8), float32)
    sb = cuda.shared.array((8, 8), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    j = cuda.blockIdx.x * 8 + x
    i = cuda.blockIdx.y * 8 + y
    acc = float32(0)
    for k in range((a.shape[1] + 7) // 8):
        sa[y, x] = a[i, k * 8 + x] if i < a.shape[0] and k * 8 + x < a.shape[1] else 0
        sb[y, x] = b[k * 8 + y, j] if k * 8 + y < b.shape[0] and j < b.shape[1] else 0
        cuda.syncthreads()
        for q in range(8):
            acc += sa[y, q] * sb[q, x]
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = acc


# EXPECT: oob array=a
@cuda.jit
def two_launch_bad(a):
    a[cuda.grid(1)] = 1


# EXPECT: race array=out kind=global
@cuda.jit
def last_write_bad(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[cuda.threadIdx.x] = a[i]


# EXPECT: safe
@cuda.jit
def b3_ok(out):
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    b = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    n = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    out[b * n + t] = t


# EXPECT: race array=out kind=global
@cuda.jit
def b3_bad(out):
    t = cuda.threadIdx.x + cuda.blockDim.y * (cuda.threadIdx.y + cuda.blockDim.x * cuda.threadIdx.z)
    b = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    n = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    out[b * n + t] = cuda.threadIdx.y


# EXPECT: safe
@cuda.jit
def colstride_ok(a):
    x, y = cuda.grid(2)
    for i in range(y, a.shape[0], cuda.blockDim.y * cuda.gridDim.y):
        for j in range(x, a.shape[1], cuda.blockDim.x * cuda.gridDim.x):
            a[i, j] = i * j


# EXPECT: race array=a kind=global
@cuda.jit
def colstride_bad(a):
    x, y = cuda.grid(2)
    for i in range(y, a.shape[0], cuda.blockDim.y * cuda.gridDim.y):
        for j in range(x, a.shape[1], cuda.blockDim.x):
            a[i, j] = cuda.blockIdx.x


# EXPECT: race array=a kind=global
@cuda.jit
def trianglewrite_bad(a):
    i = cuda.grid(1)
    for j in range(i):
        a[j] = i


# EXPECT: race array=a kind=global
@cuda.jit
def packed_bad(a):
    i = cuda.grid(1)
    base = i * (i - 1) // 2
    for j in range(i + 1):
        if 0 <= base + j < a.size:
            a[base + j] = i


# EXPECT: race array=a kind=global
@cuda.jit
def jacobi_bad(a):
    i = cuda.grid(1)
    if 0 < i < a.size - 1:
        a[i] = 0.5 * (a[i - 1] + a[i + 1])


# EXPECT: safe
@cuda.jit
def redblack_ok(a, color):
    i = cuda.grid(1)
    if 0 < i < a.size - 1 and i % 2 == color:
        a[i] = 0.5 * (a[i - 1] + a[i + 1])


# EXPECT: race array=a kind=global
@cuda.jit
def redblack2_bad(a, color):
    i, j = cuda.grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1 and i % 2 == color:
        a[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


# EXPECT: safe
@cuda.jit
def redblack2_ok(a, color):
    i, j = cuda.grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1 and (i + j) % 2 == color:
        a[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


# EXPECT: safe
@cuda.jit
def nested_ok(a):
    i = cuda.grid(1)
    k = 0
    while k < 4:
        j = 0
        while j < 4:
            a[i * 16 + k * 4 + j] = k
            j += 1
        k += 1


# EXPECT: race array=a kind=global
@cuda.jit
def nested_bad(a):
    i = cuda.grid(1)
    k = 0
    while k < 4:
        j = 0
        while j < 4:
            a[i * 8 + k * 4 + j] = i
            j += 1
        k += 1


# EXPECT: divergence
@cuda.jit
def carried_bar_bad(a):
    t = cuda.threadIdx.x
    k = t
    while k > 0:
        cuda.syncthreads()
        k -= 8
    a[t] = 1


# EXPECT: safe
@cuda.jit
def carried_bar_ok(a, n):
    t = cuda.threadIdx.x
    k = n
    s = cuda.shared.array(64, float32)
    s[t] = a[t]
    while k > 0:
        cuda.syncthreads()
        x = s[(t + k) % 64]
        cuda.syncthreads()
        s[t] = x
        k -= 8
    a[t] = s[t]


# EXPECT: race array=a kind=global
@cuda.jit
def cont_bar_bad(a):
    t = cuda.threadIdx.x
    for k in range(4):
        if a[k] > t:
            continue
        cuda.syncthreads()
    a[t] = 1


# EXPECT: race array=s kind=shared
@cuda.jit
def reuse_bad(a, b):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    x = s[63 - t]
    s[t] = b[t]
    cuda.syncthreads()
    a[t] = x + s[63 - t]


# EXPECT: safe
@cuda.jit
def reuse_ok(a, b):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    x = s[63 - t]
    cuda.syncthreads()
    s[t] = b[t]
    cuda.syncthreads()
    a[t] = x + s[63 - t]


# EXPECT: divergence
@cuda.jit
def count_bad(a):
    t = cuda.threadIdx.x
    n = cuda.syncthreads_count(a[t] > 0)
    if n > t:
        cuda.syncthreads()
    a[t] = n


# EXPECT: safe
@cuda.jit
def count_ok(a):
    t = cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    s[t] = a[t]
    n = cuda.syncthreads_count(a[t] > 0)
    if n > 5:
        cuda.syncthreads()
    a[t] = n + s[63 - t]


# EXPECT: race array=m kind=global
@cuda.jit
def min_bad(a, m):
    i = cuda.grid(1)
    if a[i] < m[0]:
        m[0] = a[i]


# EXPECT: safe
@cuda.jit
def min_ok(a, m):
    i = cuda.grid(1)
    cuda.atomic.min(m, 0, a[i])


# EXPECT: race array=k kind=global
@cuda.jit
def argmin_bad(a, m, k):
    i = cuda.grid(1)
    if a[i] <= cuda.atomic.min(m, 0, a[i]):
        k[0] = i


# EXPECT: race array=out kind=global
@cuda.jit
def aggregated_bad(a, c, out):
    t = cuda.threadIdx.x
    p = a[t] > 0
    b = cuda.ballot_sync(0xFFFFFFFF, p)
    base = 0
    if t % 32 == 0:
        base = cuda.atomic.add(c, 0, 1)
    base = cuda.shfl_sync(0xFFFFFFFF, base, 0)
    k = base + cuda.popc(b & ((1 << (t % 32)) - 1))
    if p and 0 <= k < out.size:
        out[k] = t


def main_a2():
    d = cuda.device_array(4096)
    e = cuda.device_array(4096)
    early_bad[2, 64](cuda.device_array(100))
    early_ok[1, 64](d, 100)
    early_block_ok[2, 64](cuda.device_array(100))
    break_bad[1, 64](d)
    flag_break_ok[1, 64](d)
    flag_break_bad[1, 64](d)
    data_uniform_ok[1, 64](d, e)
    data_uniform_bad[1, 64](d, cuda.to_device(np.ones(3, np.int32)))
    data_thread_bad[1, 64](d, cuda.to_device(np.arange(64)))
    double_ok[1, 64](d)
    double_bad[1, 64](d)
    double_half_bad[1, 64](d)
    triple_ok[1, 64](d, 7)
    triple_bad[1, 64](d, 7)
    helper_ok[2, 64](d)
    helper_bad[2, 64](d)
    helper_view_bad[2, 64](d)
    helper_bar_bad[1, 64](d)
    helper_bar_ok[1, 64](d, 4)
    z = cuda.to_device(np.zeros(128, np.int32))
    mixed_bad[2, 64](z, cuda.device_array(16, np.int32))
    mixed_ok[2, 64](z, cuda.device_array(16, np.int32))
    atomic_read_bad[2, 64](z, d)
    hist_ok[2, 64](z, cuda.device_array(16, np.int32))
    hist_bad[2, 64](z, cuda.device_array(16, np.int32))
    grid_ok[2, 64](d, e)
    grid_bad[2, 64](d, e)
    grid_div_bad[2, 64](d, e)
    grid_iter_ok[2, 64](d, e, 5)
    grid_iter_bad[2, 64](d, e, 5)


def main_a3():
    d = cuda.device_array(64)
    e = cuda.device_array(64)
    w = cuda.device_array(32)
    shfl_ok[1, 64](d)
    shfl_half_ok[1, 64](d)
    warp_nosync_bad[1, 32](w)
    warp_sync_ok[1, 32](w)
    warp_cross_bad[1, 64](d)
    warp_mask_bad[1, 32](w)
    f = cuda.device_array(128)
    warp_rows_ok[1, 128](f)
    warp_rows_bad[1, 128](f)
    m = cuda.device_array((8, 16))
    warp_2d_ok[1, (16, 8)](m)
    warp_2d_bad[1, (16, 8)](m)
    vote_ok[1, 64](d)
    ballot_ok[1, 32](w, e)
    ballot_bad[1, 32](w, e)
    or_ok[1, 64](d)
    or_bad[1, 64](d)
    hs_ok[1, 64](d)
    hs_bad[1, 64](d)
    bl_ok[1, 32](d)
    a = cuda.device_array((50, 30))
    b = cuda.device_array((30, 50))
    tr_ok[(2, 4), (16, 16)](a, b)
    tr_bad[(2, 4), (16, 16)](a, b)
    g = cuda.device_array(200)
    h = cuda.device_array(200)
    halo_ok[4, 64](g, h)
    halo_bad[4, 64](g, h)
    p = cuda.device_array((20, 13))
    q = cuda.device_array((13, 17))
    r = cuda.device_array((20, 17))
    mm_ok[(3, 3), (8, 8)](p, q, r)
    mm_bad[(3, 3), (8, 8)](p, q, r)
    mm_bad2[(3, 3), (8, 8)](p, q, r)


def main_a6():
    d = cuda.device_array(64)
    e = cuda.device_array(64)
    m = cuda.device_array((8, 8))
    c = cuda.to_device(np.zeros(1, np.int32))
    f = cuda.device_array(4096)
    two_launch_bad[1, 64](d)
    two_launch_bad[2, 64](d)
    last_write_bad[2, 64](f, d)
    b3_ok[(2, 2, 2), (2, 4, 8)](f)
    b3_bad[(2, 2, 2), (2, 4, 8)](f)
    colstride_ok[(2, 2), (2, 2)](m)
    colstride_bad[(2, 2), (2, 2)](m)
    trianglewrite_bad[1, 64](d)
    packed_bad[1, 64](f)
    jacobi_bad[1, 64](d)
    redblack_ok[1, 64](d, 1)
    redblack2_bad[1, (8, 8)](m, 1)
    redblack2_ok[1, (8, 8)](m, 1)
    nested_ok[1, 64](f)
    nested_bad[1, 64](f)
    carried_bar_bad[1, 64](d)
    carried_bar_ok[1, 64](d, 40)
    cont_bar_bad[1, 64](cuda.to_device(np.arange(64.0) * 8))
    reuse_bad[1, 64](d, e)
    reuse_ok[1, 64](d, e)
    count_bad[1, 64](d)
    count_ok[1, 64](d)
    min_bad[1, 64](d, e)
    min_ok[1, 64](d, e)
    argmin_bad[1, 64](d, e, c)
    aggregated_bad[1, 64](cuda.to_device(np.ones(64)), c, e)
