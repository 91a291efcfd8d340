"""How much of PyTorch the device computes, by PyTorch's own test data: `python -m torch_tpu.conformance`.

A database (ops, refs, modules, optimizers) gives tasks: an entry, a variant (forward, backward ...) and a dtype. A task
is a list of cases; each case runs on the CPU and on tpu and the results are compared. Processes apart run the tasks, so
that a crash or a hang costs one task. Nothing here knows how an operator is lowered, and nothing is excused: what CPU
computes and tpu does not is reported.

  place.py       copies a case's tensors to a device
  ops.py, modules.py, optimizers.py   the databases
  compare.py     when two results agree
  captured.py    the same under torch.compile
  task.py        runs one task: its cases and its status
  pool.py        the processes
  report.py, page.py   the table, JSON, Markdown; the HTML page
  aot.py         compiles the programs that the tasks made for TPU topologies
  reasons.py     what stays on the CPU or cannot pass, and why"""
