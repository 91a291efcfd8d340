"""Names that programs written for torch_tpu import: execution_mode and sync."""
from . import execution_mode, sync  # noqa: F401
