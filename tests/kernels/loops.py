"""Loops with barriers of every form, warps, bits, private arrays: kernels of well-known shapes for the tests of the prover, read as text.

The line above each decorator is its label, as `tests/score.py` reads it.
"""

import numpy as np
from numba import cuda, float32, int32

FLT = np.float32


# EXPECT: safe
@cuda.jit
def count_until_stable(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    for _ in range(50):
        cuda.syncthreads()
        v = max(s[t], s[(t + 1) % 64])
        moved = v != s[t]
        if cuda.syncthreads_count(moved) == 0:
            break
        s[t] = v
    cuda.syncthreads()
    x[t] = s[t]


count_until_stable[1, 64](np.ones(64, FLT))


# EXPECT: safe
@cuda.jit
def syncwarp_tile_in_loop(x, rounds):
    s = cuda.shared.array((4, 32), float32)
    w = cuda.threadIdx.x // 32
    lane = cuda.threadIdx.x % 32
    v = x[cuda.grid(1)]
    for _ in range(rounds):
        s[w, lane] = v
        cuda.syncwarp()
        v = s[w, (lane + 1) % 32]
        cuda.syncwarp()
    x[cuda.grid(1)] = v


syncwarp_tile_in_loop[2, 128](np.ones(256, FLT), 5)


# EXPECT: safe
@cuda.jit
def half_warp_syncwarp_loop(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    if t < 16:
        d = 8
        while d > 0:
            v = s[t] + s[t ^ d]
            cuda.syncwarp(0xFFFF)
            s[t] = v
            cuda.syncwarp(0xFFFF)
            d //= 2
        out[t] = s[t]


half_warp_syncwarp_loop[1, 32](np.ones(32, FLT), np.zeros(16, FLT))


# EXPECT: safe
@cuda.jit
def bit_reverse_copy(x, out):
    i = cuda.threadIdx.x
    r = 0
    v = i
    for _ in range(6):
        r = (r << 1) | (v & 1)
        v >>= 1
    out[r] = x[i]


bit_reverse_copy[1, 64](np.ones(64, FLT), np.zeros(64, FLT))


# EXPECT: safe
@cuda.jit
def morton_write(out):
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    k = 0
    for b in range(3):
        k |= ((x >> b) & 1) << (2 * b)
        k |= ((y >> b) & 1) << (2 * b + 1)
    out[k] = x * y


morton_write[1, (8, 8)](np.zeros(64, np.int32))


# EXPECT: safe
@cuda.jit
def gray_general(out):
    i = cuda.grid(1)
    g = i ^ (i >> 1)
    if g < out.size:
        out[g] = i


# EXPECT: race array=out kind=global
@cuda.jit
def gray_not(out):
    i = cuda.grid(1)
    g = (i ^ (i >> 1)) >> 1
    if g < out.size:
        out[g] = i


gray_not[1, 64](np.zeros(64, np.int32))


# EXPECT: race array=s kind=shared
@cuda.jit
def cascade_reduce(x, out):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t < 128:
        s[t] += s[t + 128]
    cuda.syncthreads()
    if t < 64:
        s[t] += s[t + 64]
    cuda.syncthreads()
    if t < 32:
        s[t] += s[t + 32]
        cuda.syncwarp()
        s[t] += s[t + 16] if t < 16 else 0
        cuda.syncwarp()
        s[t] += s[t + 8] if t < 8 else 0
        cuda.syncwarp()
        s[t] += s[t + 4] if t < 4 else 0
        cuda.syncwarp()
        s[t] += s[t + 2] if t < 2 else 0
        cuda.syncwarp()
        s[t] += s[t + 1] if t < 1 else 0
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


cascade_reduce[4, 256](np.ones(1024, FLT), np.zeros(4, FLT))


# EXPECT: safe
@cuda.jit
def offsets_swap(x, steps):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    src = 0
    dst = 64
    s[src + t] = x[t]
    cuda.syncthreads()
    for _ in range(steps):
        s[dst + t] = s[src + (t + 1) % 64]
        cuda.syncthreads()
        src, dst = dst, src
    x[t] = s[src + t]


offsets_swap[1, 64](np.ones(64, FLT), 5)


# EXPECT: safe
@cuda.jit
def countdown_steps(x, n):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    for k in range(n - 1, -1, -1):
        v = s[(t + k) % 64]
        cuda.syncthreads()
        s[t] = v * 0.5
        cuda.syncthreads()
    x[t] = s[t]


countdown_steps[1, 64](np.ones(64, FLT), 7)


# EXPECT: safe
@cuda.jit
def uniform_skip(x, flags):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for k in range(flags.size):
        if flags[k] == 0:
            continue
        s[t] = x[t]
        cuda.syncthreads()
        x[t] = s[63 - t]
        cuda.syncthreads()


uniform_skip[1, 64](np.ones(64, FLT), np.array([1, 0, 1], np.int32))


# EXPECT: safe
@cuda.jit
def uniform_break(x, limit):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    k = 0
    while True:
        if k == limit:
            break
        s[t] = x[t] + k
        cuda.syncthreads()
        x[t] = s[(t + 7) % 64]
        cuda.syncthreads()
        k += 1


uniform_break[1, 64](np.ones(64, FLT), 4)


# EXPECT: safe
@cuda.jit
def strided_shared_loops(x, out, n):
    s = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    for i in range(t, n, cuda.blockDim.x):
        s[i] = x[i]
    cuda.syncthreads()
    for r in range(4):
        for i in range(t, n, cuda.blockDim.x):
            out[i] += s[(i + r) % n]
    cuda.syncthreads()
    for i in range(t, n, cuda.blockDim.x):
        s[i] = out[i]


strided_shared_loops[1, 64](np.ones(500, FLT), np.zeros(500, FLT), 500)


# EXPECT: safe
@cuda.jit
def until_quiet(x):
    s = cuda.shared.array(65, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t == 0:
        s[64] = 0
    cuda.syncthreads()
    again = 1
    while again:
        v = max(s[t], s[t + 1] - 1)
        moved = v != s[t]
        again = cuda.syncthreads_or(moved)
        s[t] = v
        cuda.syncthreads()
    x[t] = s[t]


until_quiet[1, 64](np.arange(64, dtype=np.int32))


# EXPECT: safe
@cuda.jit
def local_stack(x, out):
    buf = cuda.local.array(8, float32)
    i = cuda.grid(1)
    if i < out.size:
        n = 0
        for k in range(8):
            if i + k < x.size and x[i + k] > 0:
                buf[n] = x[i + k]
                n += 1
        acc = float32(0.0)
        for k in range(n):
            acc += buf[k]
        out[i] = acc


# EXPECT: oob array=buf
@cuda.jit
def local_stack_short(x, out):
    buf = cuda.local.array(7, float32)
    i = cuda.grid(1)
    if i < out.size:
        n = 0
        for k in range(8):
            if i + k < x.size and x[i + k] > 0:
                buf[n] = x[i + k]
                n += 1
        out[i] = buf[0]


local_stack_short[1, 32](np.ones(64, np.float32), np.zeros(32, np.float32))
