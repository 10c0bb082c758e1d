import pytest

from optiml.devices import DEVICES, device_model, occupancy


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("H200", "H200"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("A100-SXM4-40GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA L4", "L4"),
    ],
)
def test_a_device_is_known_by_its_short_and_its_full_name(name: str, model: str) -> None:
    assert device_model(name) is DEVICES[model]


def test_an_unknown_device_is_told_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="unknown device 'Voodoo 2'"):
        device_model("Voodoo 2")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "warps", "limiter"),
    [
        # The CUDA occupancy calculator for compute capability 9.0 gives these.
        (256, 32, 0, 64, "warps"),
        (256, 64, 0, 32, "registers"),
        (1024, 64, 0, 32, "registers"),
        (128, 16, 100 * 1024, 8, "shared memory"),
        (32, 16, 0, 32, "blocks"),
        (1024, 255, 0, 0, "registers"),
    ],
)
def test_occupancy_is_what_the_calculator_gives(
    threads: int, registers: int, shared: int, warps: int, limiter: str
) -> None:
    result = occupancy(DEVICES["H200"], threads, registers, shared)
    assert (result.warps, result.limiter) == (warps, limiter)
    assert result.fraction == warps / 64
