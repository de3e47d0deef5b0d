"""Kernels that are wrong in some launch, each in its own way. Read as text, never imported.

The line above each decorator names the properties that must not be shown.
"""

import math

import numpy as np
from numba import cuda, float32, int16, int32, uint32

W = 3


@cuda.jit(device=True)
def put(x, k, v):
    x[k] = v


@cuda.jit(device=True)
def two(t):
    return t, t + 1


@cuda.jit(device=True)
def bar():
    cuda.syncthreads()


# WRONG: shared-initialised
@cuda.jit
def warp_race(a):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t < 64:
        s[t] = t
        cuda.syncwarp()
        a[cuda.blockIdx.x * 64 + t] = s[63 - t]


# WRONG: race-free
@cuda.jit
def missing_wrap_barrier(a, n):
    s = cuda.shared.array(128, int32)
    t = cuda.threadIdx.x
    for k in range(n):
        if t < 128:
            s[t] = a[t] + k
        cuda.syncthreads()
        if t < 128:
            a[t] = s[127 - t]


# WRONG: barriers-uniform
@cuda.jit
def early_return(a, n):
    i = cuda.grid(1)
    if i >= n:
        return
    cuda.syncthreads()
    a[i] = 1


# WRONG: barriers-uniform
@cuda.jit
def loop_count(a, n):
    t = cuda.threadIdx.x
    for _k in range(t % 3):
        cuda.syncthreads()
    a[cuda.grid(1)] = t


# WRONG: barriers-uniform
@cuda.jit
def vote_divergent(a):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        v = cuda.any_sync(0xFFFFFFFF, t > 3)
        a[cuda.grid(1)] = v


# WRONG: race-free
@cuda.jit
def atomic_plain(a):
    i = cuda.grid(1)
    cuda.atomic.add(a, 0, 1)
    if i == 5:
        a[0] = 7


# WRONG: race-free
@cuda.jit
def fence_noatomic(a, flag):
    i = cuda.grid(1)
    if i == 0:
        a[0] = 1
        cuda.threadfence()
        flag[0] = 1
    elif flag[0] == 1:
        a[1] = a[0]


# WRONG: race-free
@cuda.jit
def interblock(a):
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    if t == 0:
        a[b] = b
    cuda.syncthreads()
    if t == 0 and b > 0:
        a[cuda.gridDim.x + b] = a[b - 1]


# WRONG: race-free
@cuda.jit
def gridstride_wrong(a, n):
    i = cuda.grid(1)
    while i < n:
        a[i] = a[i] + 1
        i += cuda.blockDim.x


# WRONG: in-bounds
@cuda.jit
def offbyone(a):
    i = cuda.grid(1)
    if i <= a.size:
        a[i] = 1


# WRONG: race-free
@cuda.jit
def dyn_overlap(a):
    f = cuda.shared.array(0, float32)
    g = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    f[t] = t
    g[cuda.blockDim.x - 1 - t] = t
    cuda.syncthreads()
    a[cuda.grid(1)] = f[t]


# WRONG: race-free
@cuda.jit
def helper_write(a):
    i = cuda.grid(1)
    put(a, i // 2, i)


# WRONG: race-free
@cuda.jit
def of_tuple(a):
    i = cuda.grid(1)
    p, q = two(i)
    a[p] = i
    a[q] = i


# WRONG: race-free in-bounds
@cuda.jit
def while_data(a, b):
    i = cuda.grid(1)
    k = i
    while b[k] != 0:
        k = b[k]
    a[k] = i


# WRONG: barriers-uniform
@cuda.jit
def break_barrier(a, n):
    t = cuda.threadIdx.x
    for k in range(n):
        if a[t] > k:
            break
        cuda.syncthreads()


# WRONG: barriers-uniform
@cuda.jit
def continue_barrier(a, n):
    t = cuda.threadIdx.x
    for k in range(n):
        if t == k:
            continue
        cuda.syncthreads()


# WRONG: barriers-uniform
@cuda.jit
def forelse(a, n):
    t = cuda.threadIdx.x
    for k in range(n):
        if a[t] == k:
            break
    else:
        cuda.syncthreads()


# WRONG: race-free
@cuda.jit
def aug(a):
    i = cuda.grid(1)
    a[i % 8] += 1


# WRONG: race-free
@cuda.jit
def of_slice(a):
    i = cuda.grid(1)
    s = a[i : i + 2]
    s[1] = i
    s[0] = i


# WRONG: race-free
@cuda.jit
def ternary(a):
    i = cuda.grid(1)
    k = i if i % 2 == 0 else i - 1
    a[k] = i


# WRONG: race-free
@cuda.jit
def shared_reuse(a, n):
    s = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = 128
    while d > 0:
        if t < d:
            s[t] += s[t + d]
        d //= 2
    a[t] = s[0]


# WRONG: race-free shared-initialised
@cuda.jit
def reduce_tail(a):
    s = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = 128
    while d > 32:
        if t < d:
            s[t] += s[t + d]
        cuda.syncthreads()
        d //= 2
    if t < 32:
        s[t] += s[t + 32]
        s[t] += s[t + 16]
    if t == 0:
        a[cuda.blockIdx.x] = s[0]


# WRONG: race-free
@cuda.jit
def neg_index(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = i
        a[-1] = i


# WRONG: in-bounds
@cuda.jit
def neg_wrap(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i - 1] = i


# WRONG: race-free
@cuda.jit
def transposed(a):
    x, y = cuda.grid(2)
    if x < a.shape[0] and y < a.shape[0]:
        a[x, 0] = y


# WRONG: shared-initialised
@cuda.jit
def uninit(a):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = t
    cuda.syncthreads()
    a[cuda.grid(1)] = s[t % 64]


# WRONG: race-free barriers-uniform
@cuda.jit
def syncwarp_mask(a):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 16:
        s[t] = t
        cuda.syncwarp(0xFF)
        a[t] = s[15 - t]


# WRONG: race-free
@cuda.jit
def local(a):
    cells = cuda.local.array(4, int32)
    i = cuda.grid(1)
    cells[0] = i // 3
    a[cells[0]] = i


# WRONG: race-free
@cuda.jit
def of_complex(a):
    i = cuda.grid(1)
    a[i // 2].real = 1.0
    a[i // 2].imag = i


# WRONG: race-free
@cuda.jit
def record(a):
    i = cuda.grid(1)
    a[i // 2].x = i


# WRONG: race-free
@cuda.jit
def record_str(a):
    i = cuda.grid(1)
    a[i // 2]["x"] = i


# WRONG: race-free
@cuda.jit
def of_global(a):
    i = cuda.grid(1)
    a[i * W % 8] = i


# WRONG: race-free
@cuda.jit
def floorneg(a):
    i = cuda.grid(1)
    a[-(i // -2)] = i


# WRONG: race-free
@cuda.jit
def modneg(a):
    i = cuda.grid(1)
    a[(-i) % 7] = i


# WRONG: race-free
@cuda.jit
def intdiv(a):
    i = cuda.grid(1)
    a[int(i / 2)] = i


# WRONG: race-free
@cuda.jit
def of_round(a):
    i = cuda.grid(1)
    a[round(i / 2.0)] = i


# WRONG: race-free
@cuda.jit
def boolidx(a):
    i = cuda.grid(1)
    a[i > 3] = i


# WRONG: race-free
@cuda.jit
def reverse_slice(a):
    i = cuda.grid(1)
    b = a[::-1]
    if i < a.size:
        b[i] = i
        a[i] = i


# WRONG: race-free
@cuda.jit
def strided_slice(a):
    i = cuda.grid(1)
    e = a[::2]
    if i < e.size:
        e[i] = i
    if i < a.size and i % 4 == 0:
        a[i] = 5 + i


# WRONG: race-free
@cuda.jit
def grid_stride_overlap(a, n):
    i = cuda.grid(1)
    per = n // cuda.gridsize(1) + 1
    for k in range(i * per, i * per + per + 1):
        if k < n:
            a[k] = i


# WRONG: race-free
@cuda.jit
def blockdim_y(a):
    t = cuda.threadIdx.x + cuda.threadIdx.y
    a[cuda.blockIdx.x * 64 + t] = cuda.threadIdx.y


# WRONG: race-free
@cuda.jit
def block_only(a):
    a[cuda.blockIdx.x] = cuda.threadIdx.x


# WRONG: race-free
@cuda.jit
def shfl_noorder(a):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t % 32] = t
    v = cuda.shfl_sync(0xFFFFFFFF, t, 0)
    a[cuda.grid(1)] = s[(t + 1) % 32] + v


# WRONG: race-free
@cuda.jit
def cas_claim(a, lock):
    i = cuda.grid(1)
    if cuda.atomic.cas(lock, 0, 0, 1) == 0:
        a[0] = i
        lock[0] = 0


# WRONG: race-free
@cuda.jit
def ticket_overlap(a, c):
    i = cuda.grid(1)
    k = cuda.atomic.add(c, 0, 1)
    a[k] = i
    a[k + 1] = i


# WRONG: race-free
@cuda.jit
def ticket_sub(a, c):
    i = cuda.grid(1)
    k = cuda.atomic.add(c, 0, i - 3)
    a[k] = i


# WRONG: race-free
@cuda.jit
def max_ticket(a, c):
    i = cuda.grid(1)
    k = cuda.atomic.max(c, 0, i)
    a[k] = i


# WRONG: race-free
@cuda.jit
def nested(a):
    def idx(t):
        return t // 2

    i = cuda.grid(1)
    a[idx(i)] = i


# WRONG: barriers-uniform
@cuda.jit
def syncthreads_count(a):
    t = cuda.threadIdx.x
    if t < 16:
        c = cuda.syncthreads_count(t > 3)
        a[t] = c


# WRONG: in-bounds
@cuda.jit
def aug_loopvar(a, n):
    i = cuda.grid(1)
    for k in range(n):
        a[i + k] = k + i


# WRONG: race-free
@cuda.jit
def pingpong(a, b, n):
    s = cuda.shared.array(64, int32)
    r = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    r[t] = 0
    cuda.syncthreads()
    for _k in range(n):
        r[t] = s[(t + 1) % 64]
        s, r = r, s
    b[t] = s[t]


# WRONG: race-free
@cuda.jit
def pingpong_ok_but_tail(a, b, n):
    s = cuda.shared.array(64, int32)
    r = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    r[t] = 0
    for _k in range(n):
        cuda.syncthreads()
        r[t] = s[(t + 1) % 64]
        s, r = r, s
    b[t] = s[(t + 1) % 64]


# WRONG: barriers-uniform
@cuda.jit
def nonuniform_while(a, n):
    i = cuda.grid(1)
    while i < n:
        cuda.syncthreads()
        a[i] = 1
        i += cuda.gridsize(1)


# WRONG: barriers-uniform
@cuda.jit
def of_assert(a, n):
    i = cuda.grid(1)
    assert i < n
    cuda.syncthreads()
    a[i] = 1


# WRONG: race-free
@cuda.jit
def of_3d(a):
    x, y, z = cuda.grid(3)
    if x < a.shape[2] and y < a.shape[1] and z < a.shape[0]:
        a[z, y, x // 2] = x


# WRONG: race-free
@cuda.jit
def linear_wrong(a):
    t = cuda.threadIdx.x + cuda.blockDim.y * cuda.threadIdx.y
    a[t] = cuda.threadIdx.x


# WRONG: race-free
@cuda.jit
def of_min(a):
    i = cuda.grid(1)
    a[min(i, 7)] = i


# WRONG: race-free
@cuda.jit
def of_abs(a):
    i = cuda.grid(1)
    a[abs(i - 4)] = i


# WRONG: race-free
@cuda.jit
def xorfold(a):
    i = cuda.grid(1)
    a[i ^ (i & 1)] = i


# WRONG: race-free
@cuda.jit
def of_or(a):
    i = cuda.grid(1)
    a[i | 1] = i


# WRONG: in-bounds
@cuda.jit
def mul0(a, n):
    i = cuda.grid(1)
    a[i * n] = i


# WRONG: race-free
@cuda.jit
def float_index(a):
    i = cuda.grid(1)
    a[int(i * 0.5)] = i


# WRONG: race-free
@cuda.jit
def sqrt(a):
    i = cuda.grid(1)
    a[int(math.sqrt(i))] = i


# WRONG: race-free
@cuda.jit
def of_divmod(a):
    i = cuda.grid(1)
    q, r = divmod(i, 4)
    a[q + r] = i


# WRONG: race-free
@cuda.jit
def of_pow(a):
    i = cuda.grid(1)
    a[(i - 3) ** 2] = i


# WRONG: race-free
@cuda.jit
def selp(a):
    i = cuda.grid(1)
    a[cuda.selp(i > 2, 3, i)] = i


# WRONG: race-free
@cuda.jit
def popc(a):
    i = cuda.grid(1)
    a[cuda.popc(i)] = i


# WRONG: race-free
@cuda.jit
def brev(a):
    i = cuda.grid(1)
    a[cuda.clz(i)] = i


# WRONG: in-bounds
@cuda.jit
def or_cond(a, n):
    i = cuda.grid(1)
    if i < a.size or n > 3:
        a[i] = 0


# WRONG: in-bounds
@cuda.jit
def of_not(a, n):
    i = cuda.grid(1)
    if not (i > a.size):
        a[i] = 0


# WRONG: race-free
@cuda.jit
def loop_stop(a, n):
    i = cuda.grid(1)
    for k in range(i, i + 2):
        if k < a.size:
            a[k] = i


# WRONG: in-bounds
@cuda.jit
def two_dim_len(a):
    i = cuda.grid(1)
    if i < a.shape[1]:
        a[i, 0] = i


# WRONG: in-bounds
@cuda.jit
def size2d(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i, 0] = i


# WRONG: barriers-uniform
@cuda.jit
def grid_sync_block(a):
    g = cuda.cg.this_grid()
    if cuda.blockIdx.x == 0:
        g.sync()
    a[cuda.grid(1)] = 1


# WRONG: race-free
@cuda.jit
def sub2d(a):
    i = cuda.grid(1)
    row = a[i // 2]
    row[0] = i


# WRONG: race-free
@cuda.jit
def rebind(a, b):
    i = cuda.grid(1)
    c = a
    a[i] = i
    c[i + 1] = i


# WRONG: race-free
@cuda.jit
def syncwarp_twohalves(a):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 16:
        s[t] = t
        cuda.syncwarp(0x0000FFFF)
        a[t] = s[t + 16]
    elif t < 32:
        s[t] = t
        cuda.syncwarp(0xFFFF0000)


# WRONG: barriers-uniform
@cuda.jit
def barrier_in_helper(a):
    t = cuda.threadIdx.x
    if t < 8:
        bar()
    a[cuda.grid(1)] = t


# WRONG: barriers-uniform
@cuda.jit
def ret_in_loop(a, n):
    t = cuda.threadIdx.x
    for k in range(n):
        if k == t:
            return
        cuda.syncthreads()
    a[t] = 1


# WRONG: race-free
@cuda.jit
def dup_scatter(a, idx):
    i = cuda.grid(1)
    if i < idx.size:
        a[idx[i] % a.size] = i


# WRONG: race-free
@cuda.jit
def modified_bound(a, b):
    t = cuda.threadIdx.x
    for k in range(b[0]):
        a[t] = k
        b[0] = t


# WRONG: race-free barriers-uniform
@cuda.jit
def shared_flag(a):
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    while s[0] < 3:
        cuda.syncthreads()
        if t == 0:
            s[0] += 1
    a[cuda.grid(1)] = 1


# WRONG: race-free
@cuda.jit
def shadow(a):
    i = cuda.grid(1)
    for i in range(3):
        a[i] = cuda.threadIdx.x


# WRONG: race-free barriers-uniform
@cuda.jit
def while_else(a, n):
    t = cuda.threadIdx.x
    k = 0
    while k < n:
        if a[t] == k:
            break
        k += 1
    else:
        cuda.syncthreads()
    a[cuda.grid(1)] = 1


# WRONG: race-free
@cuda.jit
def unif_then_div(a, b):
    t = cuda.threadIdx.x
    flag = b[0]
    b[0] = t
    if flag > 0:
        cuda.syncthreads()
    a[cuda.grid(1)] = flag


# WRONG: barriers-uniform
@cuda.jit
def bool_scalar(a, flag):
    i = cuda.grid(1)
    if flag and i > 3:
        cuda.syncthreads()
    a[i] = 1


# WRONG: race-free
@cuda.jit
def div_arg(a, m):
    i = cuda.grid(1)
    a[i // m] = i


# WRONG: race-free
@cuda.jit
def nested_loops(a, n, m):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    for i in range(n):
        s[t] = i
        cuda.syncthreads()
        for j in range(m):
            a[t] += s[(t + j) % 64]
        # missing barrier


# WRONG: race-free shared-initialised
@cuda.jit
def cond_write_then_read(a, n):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t % 64] = 0
    cuda.syncthreads()
    if n > 5:
        s[(t + 1) % 64] = t
    if n > 6:
        a[cuda.grid(1)] = s[t % 64]


# WRONG: race-free
@cuda.jit
def sync_one_branch_uniform(a, n):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    if n > 5:
        cuda.syncthreads()
    a[t] = s[63 - t]


# WRONG: race-free
@cuda.jit
def loop_zero_trips(a, n):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    for _k in range(n):
        cuda.syncthreads()
    a[t] = s[63 - t]


# WRONG: race-free
@cuda.jit
def tag_reuse(a, n):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    for k in range(n):
        if k % 2 == 0:
            cuda.syncthreads()
        s[t] = k
        a[t] = s[63 - t]


# WRONG: race-free
@cuda.jit
def early_ret_uniform(a, n):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = t
    if n == 0:
        return
    if n < 3:
        a[t] = s[63 - t]
        return
    cuda.syncthreads()
    a[t] = s[63 - t]


# WRONG: race-free barriers-uniform
@cuda.jit
def gridsync_missing(a, n):
    i = cuda.grid(1)
    g = cuda.cg.this_grid()
    for _k in range(n):
        if i + 1 < a.size:
            v = a[i + 1]
            g.sync()
            a[i] = v


# WRONG: race-free
@cuda.jit
def gridsync_half(a, n):
    i = cuda.grid(1)
    g = cuda.cg.this_grid()
    if i + 1 < a.size:
        a[i + 1] = 3
    g.sync()
    if i < a.size:
        a[i] = i
    if i + 2 < a.size:
        a[i + 2] = i


# WRONG: race-free
@cuda.jit
def atomic_idx_race(a, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, i % 4, 1)
    cuda.syncthreads()
    a[i] = h[i % 4]
    h[i % 4] = 0


# WRONG: race-free
@cuda.jit
def atomic_return_store(a, h):
    i = cuda.grid(1)
    k = cuda.atomic.add(h, i % 2, 1)
    a[k] = i


# WRONG: race-free
@cuda.jit
def exch_lock(a, lock):
    while cuda.atomic.exch(lock, 0, 1) != 0:
        pass
    a[0] += cuda.grid(1)
    cuda.atomic.exch(lock, 0, 0)


# WRONG: race-free
@cuda.jit
def lock_wrong_release(a, lock):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    a[0] += cuda.grid(1)
    lock[0] = 0


# WRONG: race-free
@cuda.jit
def lastblock_nofence(a, out, c):
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    s = cuda.shared.array(1, int32)
    if t == 0:
        a[b] = b
        s[0] = cuda.atomic.add(c, 0, 1)
    cuda.syncthreads()
    if s[0] == cuda.gridDim.x - 1 and t == 0:
        v = 0
        for k in range(cuda.gridDim.x):
            v += a[k]
        out[0] = v


# WRONG: race-free
@cuda.jit
def lastblock_offby(a, out, c):
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    if t == 0:
        a[b] = b
        cuda.threadfence()
        k = cuda.atomic.add(c, 0, 1)
        if k == cuda.gridDim.x - 2:
            v = 0
            for j in range(cuda.gridDim.x):
                v += a[j]
            out[0] = v


# WRONG: in-bounds
@cuda.jit
def int16_loop(a, n):
    i = cuda.grid(1)
    k = int16(i * 3)
    a[k + 32768] = i


# WRONG: race-free
@cuda.jit
def uint32_mul(a):
    i = cuda.grid(1)
    k = uint32(i) * uint32(2654435761)
    a[uint32(k) >> uint32(20)] = i


# WRONG: race-free
@cuda.jit
def neg_uint(a):
    i = cuda.grid(1)
    k = -uint32(i)
    if k < a.size:
        a[k] = i
    a[i // 2] = 1 + i


# WRONG: race-free
@cuda.jit
def and_mask(a):
    i = cuda.grid(1)
    a[i & 31] = i


# WRONG: race-free
@cuda.jit
def andnot(a):
    i = cuda.grid(1)
    a[i & ~1] = i


# WRONG: race-free
@cuda.jit
def xor_guarded(a):
    i = cuda.grid(1)
    j = i ^ 1
    a[i] = i
    if j > i:
        a[j] = i


# WRONG: race-free in-bounds
@cuda.jit
def shr_neg(a):
    i = cuda.grid(1)
    a[(-i) >> 1] = i


# WRONG: race-free
@cuda.jit
def floor_ceil(a):
    i = cuda.grid(1)
    a[math.ceil(i / 3)] = i


# WRONG: race-free in-bounds
@cuda.jit
def float32cast(a):
    i = cuda.grid(1)
    a[int(float32(i))] = i


# WRONG: race-free in-bounds
@cuda.jit
def floatmul(a):
    i = cuda.grid(1)
    a[int(i * 1.0)] = i


# WRONG: in-bounds
@cuda.jit
def of_2d_wrong_guard(a):
    x, y = cuda.grid(2)
    if x < a.shape[0] and y < a.shape[1]:
        a[y, x] = 1


# WRONG: in-bounds
@cuda.jit
def halo(a, b):
    s = cuda.shared.array(34, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t + 1] = a[i]
    if t == 0:
        s[0] = a[i - 1]
    cuda.syncthreads()
    b[i] = s[t] + s[t + 2]


# WRONG: barriers-uniform
@cuda.jit
def transpose(a, b):
    s = cuda.shared.array((16, 16), int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    if x < a.shape[1] and y < a.shape[0]:
        s[ty, tx] = a[y, x]
        cuda.syncthreads()
        b[x, y] = s[ty, tx]


# WRONG: race-free
@cuda.jit
def transpose_wrong(a, b):
    s = cuda.shared.array((16, 16), int32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    s[ty, tx] = a[cuda.blockIdx.y * 16 + ty, cuda.blockIdx.x * 16 + tx]
    b[cuda.blockIdx.x * 16 + ty, cuda.blockIdx.y * 16 + tx] = s[tx, ty]


# WRONG: race-free
@cuda.jit
def reshape(a):
    i = cuda.grid(1)
    b = a.reshape(-1)
    b[i // 2] = i


# WRONG: race-free in-bounds
@cuda.jit
def ravel_view(a):
    i = cuda.grid(1)
    b = a.view(np.uint8)
    b[i] = 1
    a[i] = i


# WRONG: in-bounds
@cuda.jit
def swap(a):
    i = cuda.grid(1)
    if i < a.size // 2:
        a[i], a[a.size - i] = a[a.size - i], a[i]


# WRONG: race-free
@cuda.jit
def reverse_odd(a):
    i = cuda.grid(1)
    if i <= a.size // 2:
        j = a.size - 1 - i
        t = a[i]
        a[i] = a[j]
        a[j] = t


# WRONG: race-free
@cuda.jit
def scan(a):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    d = 1
    while d < 64:
        if t >= d:
            s[t] += s[t - d]
        cuda.syncthreads()
        d *= 2
    a[t] = s[t]


# WRONG: race-free
@cuda.jit
def bitonic_wrong(a):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = a[t]
    cuda.syncthreads()
    k = 2
    while k <= 64:
        j = k // 2
        while j > 0:
            p = t ^ j
            if p > t and s[t] > s[p]:
                v = s[t]
                s[t] = s[p]
                s[p] = v
            j //= 2
        cuda.syncthreads()
        k *= 2
    a[t] = s[t]


# WRONG: race-free
@cuda.jit
def list_index(a):
    i = cuda.grid(1)
    offs = (0, 1, 1, 2)
    a[offs[i % 4]] = i


# WRONG: race-free
@cuda.jit
def const_array(a):
    i = cuda.grid(1)
    c = cuda.const.array_like(np.array([0, 1, 1, 2]))
    a[c[i % 4]] = i


# WRONG: race-free
@cuda.jit
def match(a):
    t = cuda.threadIdx.x
    m = cuda.match_any_sync(0xFFFFFFFF, t % 4)
    a[m % 32] = t


# WRONG: race-free
@cuda.jit
def shfl_idx(a):
    t = cuda.threadIdx.x
    k = cuda.shfl_sync(0xFFFFFFFF, t, t // 2)
    a[k] = t


# WRONG: race-free
@cuda.jit
def ballot_rank_blocks(a):
    t = cuda.threadIdx.x
    v = cuda.ballot_sync(0xFFFFFFFF, t % 2)
    r = cuda.popc(v & ((1 << cuda.laneid) - 1))
    a[r] = t


# WRONG: race-free
@cuda.jit
def while_true(a, n):
    i = cuda.grid(1)
    while True:
        if i >= n:
            break
        a[i] = i
        a[i + 1] = i
        i += cuda.gridsize(1)


# WRONG: shared-initialised
@cuda.jit
def threadlimit(a):
    t = cuda.threadIdx.x
    s = cuda.shared.array(1024, int32)
    s[t] = t
    cuda.syncwarp()
    a[t] = s[(t + 32) % 1024]


# WRONG: race-free
@cuda.jit
def gtid_wrong_mult(a):
    i = cuda.blockIdx.x * cuda.gridDim.x + cuda.threadIdx.x
    a[i] = cuda.threadIdx.x


# WRONG: race-free
@cuda.jit
def mixed_axes(a):
    i = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    a[i] = cuda.blockIdx.x


# WRONG: race-free
@cuda.jit
def sum_axis(a):
    i = cuda.blockIdx.x + cuda.threadIdx.x
    a[i] = cuda.blockIdx.x


# WRONG: race-free
@cuda.jit
def kernel_local_reuse(a):
    i = cuda.grid(1)
    cells = cuda.local.array(3, int32)
    cells[i % 3] = i
    a[i] = cells[0]
    a[i + 1] = cells[1]


# WRONG: in-bounds
@cuda.jit
def local_oob(a):
    i = cuda.grid(1)
    cells = cuda.local.array(3, int32)
    cells[i % 4] = i
    a[i] = cells[0]


# WRONG: race-free in-bounds
@cuda.jit
def neg_literal(a):
    i = cuda.grid(1)
    if i < a.size - 1:
        a[i] = a[i - 1]


# WRONG: race-free
@cuda.jit
def cond_expr_short(a, n):
    i = cuda.grid(1)
    v = a[i] if i < a.size or n > i else 0
    a[0] = v


# WRONG: race-free
@cuda.jit
def aug_slice(a):
    i = cuda.grid(1)
    a[i : i + 2] += 1


# WRONG: race-free
@cuda.jit
def fill_slice(a):
    i = cuda.grid(1)
    a[i * 2 : i * 2 + 3] = i


# WRONG: race-free
@cuda.jit
def slice_neg(a):
    i = cuda.grid(1)
    a[-i - 1 :] = i


# WRONG: race-free
@cuda.jit
def block_uniform_read_raced(a, b):
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    s[0] = t
    cuda.syncthreads()
    if s[0] == 3:
        cuda.syncthreads()
    b[cuda.grid(1)] = 1


# WRONG: race-free
@cuda.jit
def global_flag_unif(a, flag):
    if flag[0] == 3:
        cuda.syncthreads()
    if cuda.grid(1) == 0:
        flag[0] = 4


# WRONG: barriers-uniform
@cuda.jit
def deadloop_guard(a, n):
    t = cuda.threadIdx.x
    k = 0
    while k < n and a[t] > 0:
        cuda.syncthreads()
        k += 1


# WRONG: race-free
@cuda.jit
def tri(a, n):
    i = cuda.grid(1)
    if i < n:
        for j in range(i):
            a[i * (i - 1) // 2 + j + i % 2] = i


# WRONG: race-free
@cuda.jit
def exclusive(a, n):
    i = cuda.grid(1)
    if i < n:
        a[n - i] = i
        a[i] = i


# WRONG: race-free
@cuda.jit
def int_overflow(a, n):
    i = cuda.grid(1)
    j = int32(i) * int32(n)
    if 0 <= j < a.size:
        a[j] = i


# WRONG: race-free
@cuda.jit
def slot_of_another_block(out):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    k = cuda.atomic.add(s, 0, 1)
    if k < out.size:
        out[k] = cuda.grid(1)


# WRONG: race-free
@cuda.jit
def first_of_each_block(out):
    s = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        s[0] = 0
    cuda.syncthreads()
    if cuda.atomic.add(s, 0, 1) == 0 and out.size > 0:
        out[0] = cuda.blockIdx.x


# WRONG: race-free
@cuda.jit
def counter_of_each_block(c, out):
    if cuda.blockIdx.x < c.size:
        k = cuda.atomic.add(c, cuda.blockIdx.x, 1)
        if 0 <= k < out.size:
            out[k] = cuda.grid(1)


# WRONG: race-free
@cuda.jit
def active_after_parting(a):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    k = 0
    while k < t:
        k += 1
    if t < 32:
        s[t] = k
    cuda.syncwarp(cuda.activemask())
    if t < 32 and cuda.blockIdx.x == 0 and t < a.size:
        a[t] = s[31 - t]


# WRONG: race-free
@cuda.jit
def slots_reserved_by_counts_that_may_be_negative(counts, out, counter):
    i = cuda.grid(1)
    if i < counts.size:
        n = counts[i]
        first = cuda.atomic.add(counter, 0, n)
        for k in range(n):
            if 0 <= first + k < out.size:
                out[first + k] = i
