"""Prints docs/environment.md from the table that the native code reads: python tools/print_environment.py >
docs/environment.md"""
from torch_tpu import _C

print(
    "# Environment variables\n\nPrinted by `tools/print_environment.py` from the table in `csrc/base/env.c`; the native code can read no other.\n"
)
print("| variable | meaning |\n| --- | --- |")
for name, meaning in _C.env_table():
    print(f"| `{name}` | {meaning} |")
print("""
`TORCH_TPU_PLUGIN` also takes the names `xla-cpu-pjrt`, `fastatomstruct-xla-cpu` and `libtpu` for the packages of those names.
PyTorch's own `TORCH_DEVICE_BACKEND_AUTOLOAD=0` keeps `import torch` from loading torch_tpu.

For the tests: `TORCH_TPU_TEST_DEVICE=cpu` runs them on plain PyTorch, which checks the tests themselves;
`TORCH_TPU_TEST_SAMPLES` is how many of op_db's samples each operator gets (3); `TORCH_TPU_TEST_STEPS` how many
steps the long run takes (2000); `TORCH_TPU_TEST_CACHE` is the folder that keeps compiled programs between runs of `make test`;
`TORCH_TPU_TEST_PART=2/10` runs one of ten parts of the tests.""")
