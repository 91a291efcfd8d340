/* fake_pjrt.h: what tests tell the fake plugin and ask it. Found by name in the loaded plugin: "fake_control". */
#ifndef FAKE_PJRT_H
#define FAKE_PJRT_H
#include <stdatomic.h>

struct fake_control {
  atomic_int live;          /* PJRT objects of every kind that nobody has destroyed yet */
  atomic_int compiles, executions;
  atomic_int handlers;      /* of custom calls */
  atomic_int broken;        /* what a plugin would have crashed or corrupted memory on: overwritten sentinels, misuse */
  /* How it behaves from now on. */
  atomic_int async;         /* work is queued for a thread of the device instead of being done inside the call */
  atomic_int slow_us;       /* each queued piece of work takes this long */
  atomic_int reversed;      /* events of two pieces of work in a row are signalled the later one first */
  atomic_int fail_execute;  /* so many executions fail inside the call, RESOURCE_EXHAUSTED */
  atomic_int fail_async;    /* so many fail after it, INTERNAL */
  atomic_int fail_compile;  /* so many compiles fail, INVALID_ARGUMENT */
  atomic_int fail_load;     /* so many serialized executables are refused, INVALID_ARGUMENT */
};
#endif
