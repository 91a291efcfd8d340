"""torch.tpu.pallas: torch_tpu.pallas under the device's name."""
from torch_tpu.pallas import JaxKernel, KernelError, SignatureError, custom_jax_kernel, jax_op  # noqa: F401
