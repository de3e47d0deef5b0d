"""Kernels whose meaning hangs on what stands outside of them: helpers in branches, attributes, names bound again.

Read as text, never imported. The line above each decorator names the properties that must not be shown, or says that
all of them hold in the file's launch.
"""

import os

import numpy as np
from numba import cuda, float32

fast = os.environ.get("FAST")
line = cuda.device_array(64, float32)
scratch = cuda.device_array(64, float32)

if fast:

    @cuda.jit(device=True)
    def place(i):
        return i // 2

else:

    @cuda.jit(device=True)
    def place(i):
        return i


@cuda.jit(device=True)
def twice(i):
    return i // 2


@cuda.jit(device=True)
def twice(i):  # noqa: F811
    return 2 * i


class Settings:
    step = 1
    pitch = 1
    width = 1
    phase = 1
    fixed = 1

    def __init__(self):
        self.fixed = 3


Settings.step = 0
Settings.pitch, other = 0, 1
setattr(Settings, "phase", 0)  # noqa: B010


def narrow(settings):
    settings.width -= 1


def replace():
    global scratch
    scratch = line


# WRONG: race-free
@cuda.jit
def helper_of_a_branch(a):
    i = cuda.threadIdx.x
    a[place(i)] = i


# RIGHT
@cuda.jit
def helper_defined_again(a):
    i = cuda.threadIdx.x
    a[twice(i)] = i


# WRONG: race-free
@cuda.jit
def attribute_set(a):
    i = cuda.threadIdx.x
    a[i * Settings.step] = i


# WRONG: race-free
@cuda.jit
def attribute_unpacked(a):
    i = cuda.threadIdx.x
    a[i * Settings.pitch] = i


# WRONG: race-free
@cuda.jit
def attribute_of_another_name(a):
    i = cuda.threadIdx.x
    a[i * Settings.width] = i


# WRONG: race-free
@cuda.jit
def attribute_set_by_call(a):
    i = cuda.threadIdx.x
    a[i * Settings.phase] = i


# RIGHT
@cuda.jit
def attribute_of_objects_only(a):
    i = cuda.threadIdx.x
    a[i * Settings.fixed] = i


# WRONG: in-bounds
@cuda.jit
def slice_too_short(a):
    i = cuda.threadIdx.x
    part = a[i + 30 : i + 34]
    part[3] = 1.0


# RIGHT
@cuda.jit
def slice_long_enough(a):
    i = cuda.threadIdx.x
    part = a[i : i + 4]
    if i % 4 == 0:
        part[3] = 1.0


# WRONG: race-free
@cuda.jit
def same_by_a_global_name(a, b):
    i = cuda.threadIdx.x
    b[i + 1] = a[i]


# WRONG: race-free
@cuda.jit
def same_by_an_inner_function(a, b):
    i = cuda.threadIdx.x
    b[i + 1] = a[i]


helper_of_a_branch[1, 32](line)
helper_defined_again[1, 32](line)
attribute_set[1, 32](line)
attribute_unpacked[1, 32](line)
attribute_of_another_name[1, 32](line)
attribute_set_by_call[1, 32](line)
attribute_of_objects_only[1, 32](line)
slice_too_short[1, 32](line)
slice_long_enough[1, 32](line)
same_by_a_global_name[1, 32](line, scratch)


def host():
    x = cuda.device_array(64, float32)
    y = None

    def share():
        nonlocal y
        y = x

    share()
    same_by_an_inner_function[1, 32](x, y)


# WRONG: in-bounds
@cuda.jit
def turns_from_below_zero(a, count):
    turn = cuda.atomic.add(count, 0, 1)
    if turn < a.size:
        a[turn] = cuda.grid(1)


# RIGHT
@cuda.jit
def turns_from_above_zero(a, count):
    turn = cuda.atomic.add(count, 0, 1)
    if turn < a.size:
        a[turn] = cuda.grid(1)


# WRONG: race-free
@cuda.jit
def last_of_a_used_counter(out, part, count):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        part[b] = b
        cuda.threadfence()
        turn = cuda.atomic.add(count, 0, 1)
        cuda.threadfence()
        if turn == cuda.gridDim.x - 1:
            out[0] = part[0] + part[1]


# RIGHT
@cuda.jit
def last_of_a_new_counter(out, part, count):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        part[b] = b
        cuda.threadfence()
        turn = cuda.atomic.add(count, 0, 1)
        cuda.threadfence()
        if turn == cuda.gridDim.x - 1:
            out[0] = part[0] + part[1]


turns_from_below_zero[2, 32](line, cuda.to_device(np.full(1, -3, np.int32)))
turns_from_above_zero[2, 32](line, cuda.to_device(np.full(1, 3, np.int32)))
last_of_a_used_counter[4, 32](cuda.device_array(1), line, cuda.to_device(np.ones(1, np.int32)))
last_of_a_new_counter[4, 32](cuda.device_array(1), line, cuda.to_device(np.zeros(1, np.int32)))
