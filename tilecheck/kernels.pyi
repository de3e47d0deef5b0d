from tilecheck_runtime.kernels import *  # noqa: F403
