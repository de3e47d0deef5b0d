"""Kernels for the tests of the prover, one idiom each. Read as text, never imported.

The line above each decorator is its label, as `tests/score.py` reads it.
"""

import numpy as np
from numba import cuda, float32, int32

TILE = 16
FULL = 0xFFFFFFFF


# EXPECT: safe
@cuda.jit
def guarded_map(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = 2 * x[i]


# EXPECT: safe
@cuda.jit
def early_return_map(y):
    i = cuda.grid(1)
    if i >= y.shape[0]:
        return
    y[i] = i


# EXPECT: race array=y kind=global
@cuda.jit
def neighbours_overlap(y):
    i = cuda.grid(1)
    if i + 1 < y.size:
        y[i] = i
        y[i + 1] = -i


# EXPECT: race array=y kind=global
@cuda.jit
def half_the_threads_collide(y):
    i = cuda.grid(1)
    if i < y.size:
        y[i // 2] = i


# EXPECT: safe
@cuda.jit
def strided_grid(x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] += 1


# EXPECT: race array=x kind=global
@cuda.jit
def strided_by_the_block_only(x):
    for i in range(cuda.grid(1), x.size, cuda.blockDim.x):
        x[i] += cuda.threadIdx.x


strided_by_the_block_only[2, 32](np.zeros(200))


# EXPECT: safe
@cuda.jit
def strided_while_down(x):
    i = x.size - 1 - cuda.grid(1)
    while i >= 0:
        x[i] = i
        i -= cuda.gridsize(1)


# EXPECT: safe
@cuda.jit
def contiguous_chunks(x, per):
    first = cuda.grid(1) * per
    for i in range(first, min(first + per, x.size)):
        x[i] = i


# EXPECT: safe
@cuda.jit
def matrix_rows(a, out):
    r, c = cuda.grid(2)
    rows, columns = out.shape
    if r < rows and c < columns:
        out[r, c] = a[r, c]


# EXPECT: oob array=out
@cuda.jit
def swapped_axes(out):
    r, c = cuda.grid(2)
    if r < out.shape[0] and c < out.shape[1]:
        out[c, r] = 1.0


# EXPECT: safe
@cuda.jit
def flat_matrix(out, width, height):
    x, y = cuda.grid(2)
    if x < width and y < height:
        out[y * width + x] = x


# EXPECT: safe
@cuda.jit
def volume(out, nx, ny):
    x, y, z = cuda.grid(3)
    if x < nx and y < ny:
        k = (z * ny + y) * nx + x
        if k < out.size:
            out[k] = z


volume[(1, 2, 3), (4, 4, 2)](np.zeros(8 * 8 * 6), 4, 8)


# EXPECT: oob array=y
@cuda.jit
def inclusive_guard(y):
    i = cuda.grid(1)
    if i <= y.size:
        y[i] = 0


# EXPECT: oob array=x
@cuda.jit
def left_neighbour_wraps(x, y):
    i = cuda.grid(1)
    if i < x.size and i < y.size:
        y[i] = x[i - 1]


# EXPECT: safe
@cuda.jit
def last_element_meant(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[-1]


# EXPECT: safe
@cuda.jit
def block_reverse(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    g = cuda.grid(1)
    s[t] = x[g]
    cuda.syncthreads()
    x[g] = s[63 - t]


block_reverse[2, 64](np.zeros(128, np.float32))


# EXPECT: race array=s kind=shared
@cuda.jit
def block_reverse_unsynced(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    x[t] = s[63 - t]


block_reverse_unsynced[1, 64](np.arange(64, dtype=np.float32))


# EXPECT: safe
@cuda.jit
def halving_sum(x, out):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    g = cuda.grid(1)
    s[t] = x[g] if g < x.size else 0.0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


halving_sum[4, 128](np.ones(500, np.float32), np.zeros(4, np.float32))


# EXPECT: race array=s kind=shared
@cuda.jit
def halving_sum_no_barrier(x, out):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        step //= 2
    if t == 0:
        out[0] = s[0]


halving_sum_no_barrier[1, 128](np.ones(128, np.float32), np.zeros(1, np.float32))


# EXPECT: safe
@cuda.jit
def doubling_scan(x):
    now = cuda.shared.array(32, int32)
    new = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    now[t] = x[t]
    cuda.syncthreads()
    d = 1
    while d < 32:
        new[t] = now[t] + (now[t - d] if t >= d else 0)
        cuda.syncthreads()
        now, new = new, now
        d *= 2
    x[t] = now[t]


doubling_scan[1, 32](np.ones(32, np.int32))


# EXPECT: race array=s kind=shared
@cuda.jit
def tile_reused_too_early(x, out, rounds):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    total = 0.0
    for k in range(rounds):
        s[t] = x[32 * k + t]
        cuda.syncthreads()
        total += s[31 - t]
    out[t] = total


tile_reused_too_early[1, 32](np.ones(128, np.float32), np.zeros(32, np.float32), 4)


# EXPECT: safe
@cuda.jit
def tiled_product(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for k in range((a.shape[1] + TILE - 1) // TILE):
        sa[ty, tx] = a[y, k * TILE + tx] if y < a.shape[0] and k * TILE + tx < a.shape[1] else 0.0
        sb[ty, tx] = b[k * TILE + ty, x] if k * TILE + ty < b.shape[0] and x < b.shape[1] else 0.0
        cuda.syncthreads()
        for j in range(TILE):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


tiled_product[(2, 2), (TILE, TILE)](
    np.ones((20, 30), np.float32), np.ones((30, 25), np.float32), np.zeros((20, 25), np.float32)
)


# EXPECT: divergence
@cuda.jit
def barrier_under_a_guard(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] += 1
        cuda.syncthreads()


barrier_under_a_guard[1, 32](np.zeros(32), 20)


# EXPECT: divergence
@cuda.jit
def rounds_differ(x):
    t = cuda.threadIdx.x
    for _ in range(t % 3):
        cuda.syncthreads()
    x[t] = t


rounds_differ[1, 8](np.zeros(8))


# EXPECT: divergence
@cuda.jit
def assert_ends_a_thread(x):
    t = cuda.threadIdx.x
    assert t < 6
    cuda.syncthreads()
    x[t] = t


assert_ends_a_thread[1, 8](np.zeros(8))


# EXPECT: safe
@cuda.jit
def leave_together(x, limit):
    t = cuda.threadIdx.x
    for _ in range(100):
        if cuda.syncthreads_or(x[t] > limit):
            break
        x[t] += 1


leave_together[1, 32](np.zeros(32), 5.0)


# EXPECT: safe
@cuda.jit
def counted_by_atomics(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i] % bins.size, 1)


# EXPECT: race array=bins kind=global
@cuda.jit
def counted_without(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        bins[x[i] & 7] += 1


counted_without[2, 32](np.zeros(64, np.int64), np.zeros(8, np.int64))


# EXPECT: unknown
@cuda.jit
def scatter(x, where, out):
    i = cuda.grid(1)
    if i < x.size and i < where.size:
        k = where[i]
        if 0 <= k < out.size:
            out[k] = x[i]


# EXPECT: safe
@cuda.jit
def slots_by_ticket(x, out, count):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0:
        p = cuda.atomic.add(count, 0, 1)
        if 0 <= p < out.size:
            out[p] = x[i]


# EXPECT: safe
@cuda.jit
def pairs_by_xor(x, mask):
    i = cuda.grid(1)
    p = i ^ mask
    if i < p and p < x.size:
        lo, hi = x[i], x[p]
        x[i] = min(lo, hi)
        x[p] = max(lo, hi)


# EXPECT: safe
@cuda.jit
def one_per_warp(x, out):
    t = cuda.threadIdx.x
    v = x[t]
    v += cuda.shfl_down_sync(FULL, v, 1)
    if t % 32 == 0:
        out[t // 32] = v


one_per_warp[1, 64](np.ones(64), np.zeros(2))


# EXPECT: race array=s kind=shared
@cuda.jit
def lock_step_assumed(x):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    x[t] = s[(t + 1) % 32]


lock_step_assumed[1, 32](np.arange(32, dtype=np.int32))


# EXPECT: safe
@cuda.jit
def warp_barrier_inside_a_warp(x):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    x[t] = s[(t + 1) % 32]


warp_barrier_inside_a_warp[1, 32](np.arange(32, dtype=np.int32))


# EXPECT: race array=x kind=global
@cuda.jit
def same_slot_in_every_block(x):
    x[cuda.threadIdx.x] = cuda.blockIdx.x


same_slot_in_every_block[2, 8](np.zeros(8))


# EXPECT: safe
@cuda.jit
def leader_of_each_block(out):
    if cuda.threadIdx.x == cuda.blockDim.x - 1:
        out[cuda.blockIdx.x] = cuda.blockDim.x


@cuda.jit(device=True)
def bump(cells, at, by):
    cells[at] = cells[at] + by


# EXPECT: safe
@cuda.jit
def through_a_helper(x):
    i = cuda.grid(1)
    if i < x.size:
        bump(x, i, 3)


# EXPECT: race array=x kind=global
@cuda.jit
def helper_at_a_fixed_place(x):
    bump(x, 0, cuda.grid(1))


helper_at_a_fixed_place[1, 8](np.zeros(4))


# EXPECT: safe
@cuda.jit
def private_scratch(x):
    w = cuda.local.array(4, float32)
    i = cuda.grid(1)
    if i < x.size:
        for k in range(4):
            w[k] = x[i] * k
        x[i] = w[3] - w[1]


# EXPECT: safe
@cuda.jit
def two_slices_of_one_pool(x):
    pool = cuda.shared.array(0, float32)
    left = pool[:16]
    right = pool[16:32]
    t = cuda.threadIdx.x
    left[t] = x[t]
    right[15 - t] = x[t]
    cuda.syncthreads()
    x[t] = left[15 - t] + right[t]


two_slices_of_one_pool[1, 16, 0, 128](np.ones(16, np.float32))


# EXPECT: safe
@cuda.jit
def sizes_at_the_launch(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[2 * i + 1]


sizes_at_the_launch[2, 16](np.zeros(64), np.zeros(32), 32)
