"""Tiles in shared memory: transposes, stencils, products: kernels of well-known shapes for the tests of the prover, read as text.

The line above each decorator is its label, as `tests/score.py` reads it.
"""

import numpy as np
from numba import cuda, float32, int32

FLT = np.float32
T = 16


# EXPECT: safe
@cuda.jit
def transpose_padded(a, out):
    tile = cuda.shared.array((T, T + 1), float32)
    x = cuda.blockIdx.x * T + cuda.threadIdx.x
    y = cuda.blockIdx.y * T + cuda.threadIdx.y
    if y < a.shape[0] and x < a.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * T + cuda.threadIdx.x
    y = cuda.blockIdx.x * T + cuda.threadIdx.y
    if y < out.shape[0] and x < out.shape[1]:
        out[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


transpose_padded[(3, 2), (T, T)](np.ones((20, 40), FLT), np.zeros((40, 20), FLT))


# EXPECT: safe
@cuda.jit
def transpose_in_place_tiles(a):
    s = cuda.shared.array((T, T), float32)
    r = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    bx, by = cuda.blockIdx.x, cuda.blockIdx.y
    if bx >= by:
        s[ty, tx] = a[by * T + ty, bx * T + tx]
        r[ty, tx] = a[bx * T + ty, by * T + tx]
        cuda.syncthreads()
        a[bx * T + ty, by * T + tx] = s[tx, ty]
        if bx != by:
            a[by * T + ty, bx * T + tx] = r[tx, ty]


transpose_in_place_tiles[(2, 2), (T, T)](np.ones((32, 32), FLT))


# EXPECT: safe
@cuda.jit
def convolve_halo_strided_load(x, w, out, radius):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    n = cuda.blockDim.x
    first = cuda.blockIdx.x * n - radius
    for k in range(t, n + 2 * radius, n):
        g = first + k
        s[k] = x[g] if 0 <= g < x.size else 0.0
    cuda.syncthreads()
    g = cuda.grid(1)
    if g < out.size:
        acc = float32(0.0)
        for k in range(2 * radius + 1):
            acc += s[t + k] * w[k]
        out[g] = acc


convolve_halo_strided_load[4, 64, 0, (64 + 6) * 4](np.ones(250, FLT), np.ones(7, FLT), np.zeros(250, FLT), 3)


# EXPECT: safe
@cuda.jit
def stencil_2d_shared(a, out):
    s = cuda.shared.array((T + 2, T + 2), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x = cuda.blockIdx.x * T + tx
    y = cuda.blockIdx.y * T + ty
    h, w = a.shape
    for j in range(ty, T + 2, T):
        for i in range(tx, T + 2, T):
            yy = min(max(cuda.blockIdx.y * T + j - 1, 0), h - 1)
            xx = min(max(cuda.blockIdx.x * T + i - 1, 0), w - 1)
            s[j, i] = a[yy, xx]
    cuda.syncthreads()
    if x < w and y < h:
        out[y, x] = 0.25 * (s[ty, tx + 1] + s[ty + 2, tx + 1] + s[ty + 1, tx] + s[ty + 1, tx + 2])


stencil_2d_shared[(3, 2), (T, T)](np.ones((30, 40), FLT), np.zeros((30, 40), FLT))


# EXPECT: safe
@cuda.jit
def stencil_3d_planes(a, out):
    plane = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    nz, ny, nx = a.shape
    inside = x < nx and y < ny
    for z in range(1, nz - 1):
        if inside:
            plane[ty, tx] = a[z, y, x]
        cuda.syncthreads()
        if inside and 0 < tx < T - 1 and 0 < ty < T - 1 and x < nx - 1 and y < ny - 1:
            out[z, y, x] = (
                plane[ty, tx - 1]
                + plane[ty, tx + 1]
                + plane[ty - 1, tx]
                + plane[ty + 1, tx]
                + a[z - 1, y, x]
                + a[z + 1, y, x]
            )
        cuda.syncthreads()


stencil_3d_planes[(2, 2), (T, T)](np.ones((8, 20, 30), FLT), np.zeros((8, 20, 30), FLT))


# EXPECT: safe
@cuda.jit
def life_in_block(board, rounds):
    cells = cuda.shared.array((2, 16, 16), int32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    cells[0, y, x] = board[y, x]
    now = 0
    cuda.syncthreads()
    for _ in range(rounds):
        n = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                n += cells[now, (y + dy) % 16, (x + dx) % 16]
        n -= cells[now, y, x]
        cells[1 - now, y, x] = 1 if n == 3 or (n == 2 and cells[now, y, x] == 1) else 0
        now = 1 - now
        cuda.syncthreads()
    board[y, x] = cells[now, y, x]


life_in_block[1, (16, 16)](np.ones((16, 16), np.int32), 5)


# EXPECT: safe
@cuda.jit
def heat_ping_pong(u, steps):
    a = cuda.shared.array(66, float32)
    b = cuda.shared.array(66, float32)
    t = cuda.threadIdx.x
    a[t + 1] = u[t]
    if t == 0:
        a[0] = 0.0
        a[65] = 0.0
        b[0] = 0.0
        b[65] = 0.0
    cuda.syncthreads()
    for _ in range(steps):
        b[t + 1] = a[t + 1] + 0.1 * (a[t] - 2 * a[t + 1] + a[t + 2])
        cuda.syncthreads()
        a, b = b, a
    u[t] = a[t + 1]


heat_ping_pong[1, 64](np.ones(64, FLT), 10)


# EXPECT: safe
@cuda.jit
def heat_parity(u, steps):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = u[t]
    cuda.syncthreads()
    for k in range(steps):
        old = k % 2
        new = (k + 1) % 2
        left = s[old, t - 1] if t > 0 else float32(0.0)
        right = s[old, t + 1] if t < 63 else float32(0.0)
        s[new, t] = 0.5 * (left + right)
        cuda.syncthreads()
    u[t] = s[steps % 2, t]


heat_parity[1, 64](np.ones(64, FLT), 7)


# EXPECT: safe
@cuda.jit
def red_black(u, iters):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = u[t]
    cuda.syncthreads()
    for _ in range(iters):
        for colour in range(2):
            if t % 2 == colour and 0 < t < 63:
                s[t] = 0.5 * (s[t - 1] + s[t + 1])
            cuda.syncthreads()
    u[t] = s[t]


red_black[1, 64](np.ones(64, FLT), 4)


# EXPECT: safe
@cuda.jit
def matmul_double_buffer(a, b, c):
    sa = cuda.shared.array((2, T, T), float32)
    sb = cuda.shared.array((2, T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col = cuda.blockIdx.x * T + tx
    row = cuda.blockIdx.y * T + ty
    n = a.shape[1]
    tiles = (n + T - 1) // T
    sa[0, ty, tx] = a[row, tx] if row < a.shape[0] and tx < n else 0.0
    sb[0, ty, tx] = b[ty, col] if ty < n and col < b.shape[1] else 0.0
    cuda.syncthreads()
    acc = float32(0.0)
    for k in range(tiles):
        cur = k % 2
        nxt = 1 - cur
        if k + 1 < tiles:
            q = (k + 1) * T
            sa[nxt, ty, tx] = a[row, q + tx] if row < a.shape[0] and q + tx < n else 0.0
            sb[nxt, ty, tx] = b[q + ty, col] if q + ty < n and col < b.shape[1] else 0.0
        for j in range(T):
            acc += sa[cur, ty, j] * sb[cur, j, tx]
        cuda.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = acc


matmul_double_buffer[(2, 2), (T, T)](np.ones((20, 40), FLT), np.ones((40, 30), FLT), np.zeros((20, 30), FLT))


# EXPECT: safe
@cuda.jit
def kmeans_block_sums(points, label, sums):
    local = cuda.shared.array((8, 4), float32)
    t = cuda.threadIdx.x
    if t < 32:
        local[t // 4, t % 4] = 0.0
    cuda.syncthreads()
    for i in range(cuda.grid(1), points.shape[0], cuda.gridsize(1)):
        for k in range(4):
            cuda.atomic.add(local, (label[i] & 7, k), points[i, k])
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(sums, (t // 4, t % 4), local[t // 4, t % 4])


kmeans_block_sums[2, 64](np.ones((100, 4), FLT), np.zeros(100, np.int32), np.zeros((8, 4), FLT))


# EXPECT: safe
@cuda.jit
def nbody_tiled(pos, acc):
    tile = cuda.shared.array((64, 3), float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    n = pos.shape[0]
    px = pos[i, 0] if i < n else float32(0.0)
    ax = float32(0.0)
    for base in range(0, n, 64):
        j = base + t
        for k in range(3):
            tile[t, k] = pos[j, k] if j < n else 0.0
        cuda.syncthreads()
        for q in range(64):
            ax += tile[q, 0] - px
        cuda.syncthreads()
    if i < n:
        acc[i] = ax


nbody_tiled[3, 64](np.ones((150, 3), FLT), np.zeros(150, FLT))


# EXPECT: safe
@cuda.jit
def jacobi_shared_2d(u, iters):
    a = cuda.shared.array((18, 18), float32)
    b = cuda.shared.array((18, 18), float32)
    x, y = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    a[y, x] = u[y, x]
    b[y, x] = u[y, x]
    if x == 1:
        a[y, 0] = u[y, 0]
        a[y, 17] = u[y, 17]
        b[y, 0] = u[y, 0]
        b[y, 17] = u[y, 17]
    if y == 1:
        a[0, x] = u[0, x]
        a[17, x] = u[17, x]
        b[0, x] = u[0, x]
        b[17, x] = u[17, x]
    cuda.syncthreads()
    for k in range(iters):
        if k % 2 == 0:
            b[y, x] = 0.25 * (a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1])
        else:
            a[y, x] = 0.25 * (b[y - 1, x] + b[y + 1, x] + b[y, x - 1] + b[y, x + 1])
        cuda.syncthreads()
    u[y, x] = a[y, x] if iters % 2 == 0 else b[y, x]


jacobi_shared_2d[1, (16, 16)](np.ones((18, 18), FLT), 6)


# EXPECT: safe
@cuda.jit
def tiled_matvec(a, x, y):
    tile = cuda.shared.array(64, float32)
    r = cuda.grid(1)
    t = cuda.threadIdx.x
    acc = float32(0.0)
    cols = a.shape[1]
    for base in range(0, cols, 64):
        if base + t < cols:
            tile[t] = x[base + t]
        cuda.syncthreads()
        if r < a.shape[0]:
            for j in range(min(64, cols - base)):
                acc += a[r, base + j] * tile[j]
        cuda.syncthreads()
    if r < y.size:
        y[r] = acc


tiled_matvec[3, 64](np.ones((150, 200), FLT), np.ones(200, FLT), np.zeros(150, FLT))


# EXPECT: safe
@cuda.jit
def cube_tile(a, out):
    s = cuda.shared.array((8, 8, 8), float32)
    x, y, z = cuda.grid(3)
    tx, ty, tz = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    inside = z < a.shape[0] and y < a.shape[1] and x < a.shape[2]
    s[tz, ty, tx] = a[z, y, x] if inside else 0.0
    cuda.syncthreads()
    if inside:
        v = s[tz, ty, tx]
        if tx > 0:
            v += s[tz, ty, tx - 1]
        if ty > 0:
            v += s[tz, ty - 1, tx]
        if tz > 0:
            v += s[tz - 1, ty, tx]
        out[z, y, x] = v


cube_tile[(2, 2, 2), (8, 8, 8)](np.ones((12, 13, 14), FLT), np.zeros((12, 13, 14), FLT))


# EXPECT: safe
@cuda.jit
def product_of_strips(a, b, c):
    left = cuda.shared.array((32, 8), float32)
    right = cuda.shared.array((8, 32), float32)
    acc = cuda.local.array((2, 2), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tid = ty * T + tx
    top, side = cuda.blockIdx.y * 32, cuda.blockIdx.x * 32
    for i in range(2):
        for j in range(2):
            acc[i, j] = 0.0
    for k0 in range(0, a.shape[1], 8):
        r, k = tid // 8, tid % 8
        left[r, k] = a[top + r, k0 + k] if top + r < a.shape[0] and k0 + k < a.shape[1] else 0.0
        k, q = tid // 32, tid % 32
        right[k, q] = b[k0 + k, side + q] if k0 + k < b.shape[0] and side + q < b.shape[1] else 0.0
        cuda.syncthreads()
        for k in range(8):
            for i in range(2):
                for j in range(2):
                    acc[i, j] += left[ty * 2 + i, k] * right[k, tx * 2 + j]
        cuda.syncthreads()
    for i in range(2):
        for j in range(2):
            y, x = top + ty * 2 + i, side + tx * 2 + j
            if y < c.shape[0] and x < c.shape[1]:
                c[y, x] = acc[i, j]


product_of_strips[(2, 2), (T, T)](np.ones((50, 20), FLT), np.ones((20, 60), FLT), np.zeros((50, 60), FLT))
