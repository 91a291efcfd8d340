"""Names that kernel libraries import: jax_op, and the modules pallas and tpu_torch_pallas."""
from ...pallas import custom_jax_kernel, jax_op  # noqa: F401
from . import pallas, tpu_torch_pallas  # noqa: F401
