"""A projection that does nothing: Hugging Face and keras-hub have one even where E == H.

Ours has none there, as the original, unless the file's does something.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np


def identity_projection(kernel: str, bias: str, size: int) -> dict[str, np.ndarray]:
    """The tensors of a projection that does nothing, by their names in the file; E == H == `size`.

    >>> identity_projection("w", "b", 2)["w"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return {kernel: np.eye(size, dtype=np.float32), bias: np.zeros(size, np.float32)}


def projects(
    identity: Mapping[str, np.ndarray],
    found: Collection[str],
    get_tensor: Callable[[str], np.ndarray],
) -> bool:
    """Whether a file's projection is another than `identity`, or lacks a tensor of it.

    Args:
        identity: of `identity_projection`.
        found: names in the file.
        get_tensor: gives the array of a name.
    """
    return any(
        name not in found or not np.array_equal(get_tensor(name), array)
        for name, array in identity.items()
    )
