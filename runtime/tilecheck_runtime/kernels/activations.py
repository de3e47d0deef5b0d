"""Activations as device functions of f32 tiles: any kernel may call them, fused into what it computes.

z.store(gelu_of(tc.load_like(x, z)))
"""

from typing import TypeVarTuple

import tilecheck as tc
from tilecheck import Tile, f32

S = TypeVarTuple("S")


def relu_of(t: Tile[f32, *S]) -> Tile[f32, *S]:
    """max(t, 0)."""
    return tc.maximum(t, 0.0)


def silu_of(t: Tile[f32, *S]) -> Tile[f32, *S]:
    """t * sigmoid(t)."""
    return t * (1.0 / (1.0 + tc.exp(-t)))


def gelu_of(t: Tile[f32, *S]) -> Tile[f32, *S]:
    """The tanh form of Hendrycks and Gimpel, "Gaussian error linear units", 2016; 0.5 * (1 + tanh(u)) is sigmoid(2 * u)."""
    return t / (1.0 + tc.exp(-1.5957691216057308 * (t + 0.044715 * t * t * t)))
