"""Right ways to share data give the right answer and no report, in every order."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.profiler.cpu.conftest import Device

T = np.arange(128)
X = (T * 37 % 101).astype(np.int32)
WANT: dict[str, NDArray[np.int64]] = {
    "warp_private_rows": X[T // 32 * 32 + 31 - T % 32],
    "two_buffers_one_barrier": 6 * X[127 - T] + 15,
    "same_flag_from_all": np.ones(128, np.int64),
    "neighbouring_bytes": X[T ^ 1],
    "neighbouring_halves": X[T ^ 1],
    "volatile_warp_reduction": np.full(128, X[:64].sum()),
    "producer_and_consumer": np.where(T < 64, 0, X[127 - T]),
    "broadcast_slot": X,
    "partial_barrier_pipeline": np.where(T < 64, X[T % 64] + 2, X[127 - T] + 2),
}


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
@pytest.mark.parametrize("entry", WANT)
def test_pattern_is_right_and_silent(load: Callable[[str], Device], entry: str, order: str) -> None:
    device = load("patterns")
    y = device.output(512)
    result = device.run(entry, 1, 128, [device.array(X), y], order=order, seed=3)
    assert (result.status, result.findings) == ("ok", ())
    np.testing.assert_array_equal(y.array(np.int32), WANT[entry])
