/* module.c: the extension module torch_tpu._C: what Python asks of the device that torch has no function for.
 *
 * Importing it registers the device with torch and touches no plugin. Each function checks its arguments, calls the
 * core or the shim, and turns a tt_error into a Python exception. Knows nothing of torch. */
#include "graph/cache.h"
#include "graph/disk.h"
#include "graph/explain.h"
#include "graph/graph.h"
#include "hlo/foreign.h"
#include "hlo/share.h"
#include "pjrt/pjrt.h"
#include "python/python.h"
#include "dist/dist.h"
#include "tt_custom_call.h"
#include "shim/shim.h"

static PyObject *lazy_init_fn;

PyObject *raise_error(const tt_error *e) {
  PyObject *type = PyExc_RuntimeError;
  switch (e->code) {
    case TT_INVALID_ARGUMENT: type = PyExc_ValueError; break;
    case TT_NOT_FOUND: type = PyExc_FileNotFoundError; break;
    case TT_UNIMPLEMENTED: type = PyExc_NotImplementedError; break;
    case TT_OUT_OF_RANGE: type = PyExc_IndexError; break;
    case TT_RESOURCE_EXHAUSTED: type = PyExc_MemoryError; break;
    default: break;
  }
  if (PyErr_Occurred()) return NULL; /* the exception of a Python function that was called on the way */
  if (e->where[0]) return PyErr_Format(type, "%s: %s", e->where, e->message);
  return PyErr_Format(type, "%s", e->message);
}

/* ---- the client ---- */

/* Called without the GIL at first use; the Python function it calls calls init. */
static tt_code lazy_init(tt_error *err) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *r = lazy_init_fn ? PyObject_CallNoArgs(lazy_init_fn) : NULL;
  tt_code code = TT_OK;
  if (!r && PyErr_Occurred()) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    code = tt_fail(err, TT_FAILED_PRECONDITION, "", "%s", utf8 ? utf8 : "the device could not be initialised");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  }
  Py_XDECREF(r);
  PyGILState_Release(gil);
  return code;
}

static PyObject *set_lazy_init(PyObject *self, PyObject *fn) {
  (void)self;
  if (!PyCallable_Check(fn)) return PyErr_Format(PyExc_TypeError, "expected a function, got %s", Py_TYPE(fn)->tp_name);
  Py_INCREF(fn);
  Py_XSETREF(lazy_init_fn, fn);
  shim_set_lazy_init(lazy_init);
  Py_RETURN_NONE;
}

static PyObject *init(PyObject *self, PyObject *args, PyObject *kwargs) {
  (void)self;
  static char *names[] = {"plugin_path", "n_devices", NULL};
  const char *path;
  int n = 0;
  tt_error err = {0};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|i", names, &path, &n)) return NULL;
  if (shim_init(path, n, &err)) return raise_error(&err);
  Py_RETURN_NONE;
}

static PyObject *is_initialized(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyBool_FromLong(shim_initialized());
}

/* The client, or NULL with the exception set. */
static tt_client *client(void) {
  tt_error err = {0};
  tt_client *c = shim_client_or_error(&err);
  if (!c) raise_error(&err);
  return c;
}

static PyObject *device_count(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tt_client *c = client();
  return c ? PyLong_FromLong(tt_client_device_count(c)) : NULL;
}

static PyObject *current_device(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyLong_FromLong(shim_current_device());
}

/* A device index argument; -1 with the exception set. */
static int device_index(tt_client *c, PyObject *arg) {
  long i = PyLong_AsLong(arg);
  if (i == -1 && PyErr_Occurred()) return -1;
  int n = tt_client_device_count(c);
  if (i >= 0 && i < n) return (int)i;
  PyErr_Format(PyExc_ValueError, "expected a tpu device index below %d, got %ld", n, i);
  return -1;
}

static PyObject *set_device(PyObject *self, PyObject *arg) {
  (void)self;
  tt_error err = {0};
  long i = PyLong_AsLong(arg);
  if (i == -1 && PyErr_Occurred()) return NULL;
  if (shim_set_device((int)i, &err)) return raise_error(&err);
  Py_RETURN_NONE;
}

static PyObject *synchronize(PyObject *self, PyObject *arg) {
  (void)self;
  tt_client *c = client();
  int i = c ? device_index(c, arg) : -1;
  if (i < 0) return NULL;
  tt_error err = {0};
  tt_code code;
  Py_BEGIN_ALLOW_THREADS if (!(code = tt_flush(i, &err))) code = tt_client_synchronize(c, i, &err);
  Py_END_ALLOW_THREADS if (code) return raise_error(&err);
  Py_RETURN_NONE;
}

static PyObject *platform(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tt_client *c = client();
  return c ? PyUnicode_FromString(tt_client_platform(c)) : NULL;
}

static PyObject *device_kind(PyObject *self, PyObject *arg) {
  (void)self;
  tt_client *c = client();
  int i = c ? device_index(c, arg) : -1;
  return i < 0 ? NULL : PyUnicode_FromString(tt_client_device_kind(c, i));
}

static PyObject *plugin_path(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tt_client *c = client();
  return c ? PyUnicode_FromString(tt_plugin_path(tt_client_plugin(c))) : NULL;
}

static PyObject *plugin_build(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tt_client *c = client();
  return c ? PyUnicode_FromString(tt_plugin_build(tt_client_plugin(c))) : NULL;
}

static PyObject *memory(PyObject *self, PyObject *arg) {
  (void)self;
  tt_client *c = client();
  int i = c ? device_index(c, arg) : -1;
  if (i < 0) return NULL;
  int64_t limit = 0, in_use = -1;
  tt_client_device_memory(c, i, &limit, &in_use);
  return Py_BuildValue("LL", (long long)limit, (long long)in_use);
}

static PyObject *in_bad_fork(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyBool_FromLong(tt_forked());
}

static PyObject *empty_cache(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  if (shim_initialized()) {
    tt_client *c = client();
    if (c) tt_scalars_clear(c);
  }
  Py_RETURN_NONE;
}

static PyObject *set_memory_limit(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  long long bytes;
  if (!PyArg_ParseTuple(args, "iL", &device, &bytes)) return NULL;
  tt_set_memory_limit(device, bytes);
  Py_RETURN_NONE;
}

static PyObject *flush(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tt_error err = {0};
  tt_code code;
  Py_BEGIN_ALLOW_THREADS code = tt_flush(-1, &err);
  Py_END_ALLOW_THREADS if (code) return raise_error(&err);
  Py_RETURN_NONE;
}

static PyObject *memory_stats(PyObject *self, PyObject *arg) {
  (void)self;
  long device = PyLong_AsLong(arg);
  if (device == -1 && PyErr_Occurred()) return NULL;
  tt_memory m;
  tt_memory_get((int)device, &m);
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "live_buffers", m.live_buffers, "live_bytes", m.live_bytes,
                       "peak_bytes", m.peak_bytes, "made_buffers", m.made_buffers, "made_bytes", m.made_bytes,
                       "retries", m.retries, "refusals", m.refusals);
}

/* [(address, bytes, dtype name, dims, made by or None)], the largest first */
static PyObject *memory_holders(PyObject *self, PyObject *arg) {
  (void)self;
  long device = PyLong_AsLong(arg);
  if (device == -1 && PyErr_Occurred()) return NULL;
  size_t room = tt_holders((int)device, NULL, 0) + 64; /* other threads may make more meanwhile */
  tt_holder *holders = PyMem_Calloc(room, sizeof *holders);
  if (!holders) return PyErr_NoMemory();
  size_t n = tt_holders((int)device, holders, room);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < n && i < room; i++) {
    const tt_holder *h = &holders[i];
    PyObject *dims = PyTuple_New(h->rank);
    for (int d = 0; dims && d < h->rank; d++) PyTuple_SET_ITEM(dims, d, PyLong_FromLongLong(h->dims[d]));
    PyObject *item = dims ? Py_BuildValue("KnsNz", (unsigned long long)(uintptr_t)h->address, (Py_ssize_t)h->bytes,
                                          tt_dtype_name((tt_dtype)h->dtype), dims, h->made) : NULL;
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  PyMem_Free(holders);
  return list;
}

/* Settings are numbers here; torch_tpu/_internal/execution_mode.py names them. */
static PyObject *mode_settings(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  return PyLong_FromUnsignedLong(tt_mode_settings());
}

static PyObject *mode_set(PyObject *self, PyObject *arg) {
  (void)self;
  unsigned long settings = PyLong_AsUnsignedLong(arg);
  if (PyErr_Occurred()) return NULL;
  tt_mode_set((unsigned)settings);
  return flush(NULL, NULL);
}

static PyObject *mode_enter(PyObject *self, PyObject *arg) {
  (void)self;
  unsigned long settings = PyLong_AsUnsignedLong(arg);
  if (PyErr_Occurred()) return NULL;
  if (settings >= TT_SETTINGS)
    return PyErr_Format(PyExc_ValueError, "expected settings below %d, got %lu", (int)TT_SETTINGS, settings);
  return PyLong_FromUnsignedLong(shim_mode_enter((unsigned)settings));
}

static PyObject *mode_leave(PyObject *self, PyObject *arg) {
  (void)self;
  unsigned long before = PyLong_AsUnsignedLong(arg);
  if (PyErr_Occurred()) return NULL;
  shim_mode_leave((unsigned)before);
  return flush(NULL, NULL);
}

static PyObject *fuse_wait(PyObject *self, PyObject *arg) {
  (void)self;
  int stop = PyObject_IsTrue(arg);
  if (stop < 0) return NULL;
  Py_BEGIN_ALLOW_THREADS tt_fuse_wait(stop);
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *fuse_counters(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tt_fuse_counters c;
  tt_fuse_counters_get(&c);
  int64_t *n = c.windows, *r = c.records;
  return Py_BuildValue("{s:{s:L,s:L,s:L,s:L},s:{s:L,s:L,s:L,s:L},s:L,s:L}", "windows", "read", n[TT_FLUSH_READ],
                       "full", n[TT_FLUSH_FULL], "handed", n[TT_FLUSH_HANDED], "asked", n[TT_FLUSH_ASKED], "records",
                       "read", r[TT_FLUSH_READ], "full", r[TT_FLUSH_FULL], "handed", r[TT_FLUSH_HANDED], "asked",
                       r[TT_FLUSH_ASKED], "fused", c.fused, "replayed", c.replayed);
}

static void add_compile(void *list, const char *op, const char *parts, const char *place, double milliseconds) {
  PyObject *item = Py_BuildValue("sssd", op, parts, place, milliseconds);
  if (item && !PyErr_Occurred()) PyList_Append(list, item);
  Py_XDECREF(item);
}

static PyObject *compiles(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  PyObject *list = PyList_New(0);
  if (list) tt_explain_each(add_compile, list);
  if (PyErr_Occurred()) Py_CLEAR(list);
  return list;
}

static PyObject *cache_folder(PyObject *self, PyObject *arg) {
  (void)self;
  const char *folder = tt_disk_folder(PyObject_IsTrue(arg) == 1);
  return folder ? PyUnicode_DecodeFSDefault(folder) : Py_NewRef(Py_None);
}

PyObject *digest_text(tt_digest d) {
  char text[33];
  snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)d.h[0], (unsigned long long)d.h[1]);
  return PyUnicode_FromString(text);
}

static PyObject *cache_key(PyObject *self, PyObject *arg) {
  (void)self;
  tt_client *c = client();
  Py_ssize_t length;
  const char *text = c ? PyUnicode_AsUTF8AndSize(arg, &length) : NULL;
  return text ? digest_text(tt_cache_key(c, text, (size_t)length)) : NULL;
}

/* cache_bring(text): compiles it, where it is not in the cache yet, without running it */
static PyObject *cache_bring(PyObject *self, PyObject *arg) {
  (void)self;
  tt_client *c = client();
  Py_ssize_t length;
  const char *text = c ? PyUnicode_AsUTF8AndSize(arg, &length) : NULL;
  if (!text) return NULL;
  tt_error err = {0};
  tt_executable *e;
  Py_BEGIN_ALLOW_THREADS e = tt_cache_get(c, text, (size_t)length, &err);
  tt_cache_drop(e);
  Py_END_ALLOW_THREADS if (!e) return raise_error(&err);
  Py_RETURN_NONE;
}

static PyObject *cache_check(PyObject *self, PyObject *arg) {
  (void)self;
  PyObject *path;
  if (!PyUnicode_FSConverter(arg, &path)) return NULL;
  bool good;
  Py_BEGIN_ALLOW_THREADS good = tt_disk_check(PyBytes_AS_STRING(path));
  Py_END_ALLOW_THREADS Py_DECREF(path);
  return PyBool_FromLong(good);
}

static PyObject *env_table(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  PyObject *list = PyList_New(0);
  for (const tt_env_row *row = tt_env_table; list && row->name; row++) {
    PyObject *pair = Py_BuildValue("ss", row->name, row->meaning);
    if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
    Py_XDECREF(pair);
  }
  return list;
}

static PyObject *bench_execute(PyObject *self, PyObject *arg) {
  (void)self;
  long n = PyLong_AsLong(arg);
  if (n == -1 && PyErr_Occurred()) return NULL;
  tt_client *c = client();
  if (!c) return NULL;
  tt_error err = {0};
  double ns;
  Py_BEGIN_ALLOW_THREADS ns = tt_floor_execute(c, (int)n, &err);
  Py_END_ALLOW_THREADS return err.code ? raise_error(&err) : PyFloat_FromDouble(ns);
}

/* ---- counters ---- */
static void add_fallback(void *dict, const char *op, int64_t count) {
  PyObject *n = PyLong_FromLongLong(count);
  if (n) PyDict_SetItemString(dict, op, n);
  Py_XDECREF(n);
}

static PyObject *counters(PyObject *self, PyObject *args) {
  (void)self, (void)args;
  tt_counters c;
  tt_counters_get(&c);
  int64_t plans, plans_dropped;
  tt_plans_count(&plans, &plans_dropped);
  const struct {
    const char *name;
    int64_t value;
  } fields[] = {{"compiles", c.compiles},
                {"cache_hits_plan", c.cache_hits_plan},
                {"cache_hits_memory", c.cache_hits_memory},
                {"cache_hits_disk", c.cache_hits_disk},
                {"cache_hits_shared", c.cache_hits_shared},
                {"cache_misses", c.cache_misses},
                {"cache_rejects", c.cache_rejects},
                {"executions", c.executions},
                {"bytes_to_device", c.bytes_to_device},
                {"bytes_from_device", c.bytes_from_device},
                {"scalar_uploads", c.scalar_uploads},
                {"live_storages", c.live_storages},
                {"live_buffers", c.live_buffers},
                {"live_bytes", c.live_bytes},
                {"peak_bytes", c.peak_bytes},
                {"plans", plans},
                {"plans_dropped", plans_dropped}};
  PyObject *dict = PyDict_New(), *fallbacks = PyDict_New();
  for (size_t i = 0; dict && i < sizeof fields / sizeof *fields; i++)
    add_fallback(dict, fields[i].name, fields[i].value);
  if (fallbacks) shim_fallback_counts(add_fallback, fallbacks);
  if (!dict || !fallbacks || PyErr_Occurred() || PyDict_SetItemString(dict, "fallbacks", fallbacks)) Py_CLEAR(dict);
  Py_XDECREF(fallbacks);
  return dict;
}

static PyObject *reset_peak(PyObject *self, PyObject *arg) {
  (void)self;
  long device = PyLong_AsLong(arg);
  if (device == -1 && PyErr_Occurred()) return NULL;
  tt_memory_reset_peak((int)device);
  Py_RETURN_NONE;
}

/* ---- random state of the default generators; needs no client ---- */
enum { MAX_DEVICES = 64 };

static tt_generator *generator(int device) {
  if (device >= 0 && device < MAX_DEVICES) return tt_generator_default(device);
  PyErr_Format(PyExc_ValueError, "expected a tpu device index below %d, got %d", (int)MAX_DEVICES, device);
  return NULL;
}

static PyObject *rng_get(PyObject *self, PyObject *arg) {
  (void)self;
  long device = PyLong_AsLong(arg);
  if (device == -1 && PyErr_Occurred()) return NULL;
  tt_generator *g = generator((int)device);
  if (!g) return NULL;
  uint64_t seed, offset;
  tt_generator_get(g, &seed, &offset);
  return Py_BuildValue("KK", (unsigned long long)seed, (unsigned long long)offset);
}

static PyObject *rng_set(PyObject *self, PyObject *args) {
  (void)self;
  int device;
  unsigned long long seed, offset;
  if (!PyArg_ParseTuple(args, "iKK", &device, &seed, &offset)) return NULL;
  tt_generator *g = generator(device);
  if (!g) return NULL;
  tt_generator_set(g, seed, offset);
  Py_RETURN_NONE;
}

static PyObject *manual_seed_all(PyObject *self, PyObject *arg) {
  (void)self;
  unsigned long long seed = PyLong_AsUnsignedLongLongMask(arg);
  if (PyErr_Occurred()) return NULL;
  for (int i = 0; i < MAX_DEVICES; i++) tt_generator_set(tt_generator_default(i), seed, 0);
  Py_RETURN_NONE;
}

static PyObject *default_generator(PyObject *self, PyObject *arg) {
  (void)self;
  long device = PyLong_AsLong(arg);
  if (device == -1 && PyErr_Occurred()) return NULL;
  return generator((int)device) ? shim_default_generator((int)device) : NULL;
}

/* ---- decompositions and captured graphs ---- */
static PyObject *set_decompose(PyObject *self, PyObject *fn) {
  (void)self;
  if (!PyCallable_Check(fn)) return PyErr_Format(PyExc_TypeError, "expected a function, got %s", Py_TYPE(fn)->tp_name);
  shim_set_decompose(fn);
  Py_RETURN_NONE;
}

/* A sequence of ints into out; -1 with the exception set. */
static int read_ints(PyObject *seq, int64_t *out) {
  PyObject *fast = PySequence_Fast(seq, "expected a sequence of ints");
  if (!fast) return -1;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
  if (n > TT_MAX_RANK) PyErr_Format(PyExc_ValueError, "expected at most %d dims, got %zd", (int)TT_MAX_RANK, n);
  for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) out[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast, i));
  Py_DECREF(fast);
  return PyErr_Occurred() ? -1 : (int)n;
}

static int dtype_named(const char *name) {
  for (int t = 0; t < TT_DTYPES; t++)
    if (!strcmp(tt_dtype_name((tt_dtype)t), name)) return t;
  PyErr_Format(PyExc_TypeError, "tpu tensors cannot have dtype %s", name);
  return -1;
}

/* graph_register(fn, [(dtype name, sizes, strides) or None, ...]) -> handle */
static PyObject *graph_register(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *fn, *list;
  if (!PyArg_ParseTuple(args, "OO!", &fn, &PyList_Type, &list)) return NULL;
  Py_ssize_t n = PyList_GET_SIZE(list);
  tt_output *outputs = PyMem_Calloc((size_t)n + 1, sizeof *outputs);
  int64_t (*shapes)[2][TT_MAX_RANK] = PyMem_Calloc((size_t)n + 1, sizeof *shapes);
  int64_t handle = -1;
  if (!outputs || !shapes) PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
    const char *name;
    PyObject *sizes, *strides, *item = PyList_GET_ITEM(list, i);
    if (item == Py_None) continue;
    if (!PyArg_ParseTuple(item, "sOO", &name, &sizes, &strides)) break;
    int dtype = dtype_named(name), rank = dtype < 0 ? -1 : read_ints(sizes, shapes[i][0]);
    if (rank < 0 || read_ints(strides, shapes[i][1]) < 0) break;
    outputs[i] = (tt_output){true, (uint8_t)dtype, (uint8_t)rank, shapes[i][0], shapes[i][1]};
  }
  tt_error err = {0};
  if (!PyErr_Occurred() && (handle = shim_graph_register(fn, (int)n, outputs, &err)) < 0) raise_error(&err);
  PyMem_Free(outputs);
  PyMem_Free(shapes);
  return PyErr_Occurred() ? NULL : PyLong_FromLongLong(handle);
}

static PyObject *graph_release(PyObject *self, PyObject *arg) {
  (void)self;
  long long handle = PyLong_AsLongLong(arg);
  if (handle == -1 && PyErr_Occurred()) return NULL;
  shim_graph_release(handle);
  Py_RETURN_NONE;
}

/* show_programs(only, for_tpu=False): keeps the texts of this thread's programs; only: without compiling them; for_tpu:
 * as a TPU wants them */
static PyObject *show_programs(PyObject *self, PyObject *args) {
  (void)self;
  int only, for_tpu = 0;
  if (!PyArg_ParseTuple(args, "p|p", &only, &for_tpu)) return NULL;
  tt_cache_show(true, only);
  tt_lower_for_tpu(for_tpu);
  Py_RETURN_NONE;
}

/* foreign_register(key, entry, text): the functions of text, of which entry is called by torch_tpu::foreign(args, key)
 */
static PyObject *foreign_register(PyObject *self, PyObject *args) {
  (void)self;
  const char *key, *entry, *text;
  Py_ssize_t length;
  tt_error err = {0};
  if (!PyArg_ParseTuple(args, "sss#", &key, &entry, &text, &length)) return NULL;
  if (hlo_foreign_register(key, entry, text, (size_t)length, &err)) return raise_error(&err);
  Py_RETURN_NONE;
}

/* custom_call_register(target, address): the XLA_FFI_Handler at the address is what custom calls of target run */
static PyObject *custom_call_register(PyObject *self, PyObject *args) {
  (void)self;
  const char *target;
  unsigned long long address;
  tt_error err = {0};
  if (!PyArg_ParseTuple(args, "sK", &target, &address)) return NULL;
  tt_client *c = client();
  if (!c) return NULL;
  if (tt_custom_call_register(c, target, (void *)(uintptr_t)address, &err)) return raise_error(&err);
  Py_RETURN_NONE;
}

/* lowers_for_tpu() -> whether programs that this thread makes now are for a TPU */
static PyObject *lowers_for_tpu(PyObject *self, PyObject *none) {
  (void)self, (void)none;
  tt_client *c = client();
  return c ? PyBool_FromLong(tt_client_lowers_for_tpu(c)) : NULL;
}

/* mark_absent(address): the tensor there, if nothing was ever written to it, has contents that are elsewhere: no
 * program that reads it can run, until it is written */
static PyObject *mark_absent(PyObject *self, PyObject *arg) {
  (void)self;
  tt_storage *s = tt_storage_from_address(PyLong_AsVoidPtr(arg));
  if (s && tt_storage_undefined(s)) tt_storage_mark_absent(s);
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

/* trace_place(file or None, line): where what this thread traces from now on comes from */
static PyObject *trace_place(PyObject *self, PyObject *args) {
  (void)self;
  const char *file;
  long long line;
  if (!PyArg_ParseTuple(args, "zL", &file, &line)) return NULL;
  tt_trace *t = tt_trace_current();
  if (t) hlo_place(t->m, file, line);
  Py_RETURN_NONE;
}

/* shown_programs() -> [text], and no more are kept */
static PyObject *shown_programs(PyObject *self, PyObject *none) {
  (void)self, (void)none;
  size_t length;
  const char *texts = tt_cache_shown(&length);
  PyObject *list = PyList_New(0);
  for (const char *p = texts; list && p < texts + length; p += strlen(p) + 1) {
    PyObject *text = PyUnicode_FromString(p);
    if (!text || PyList_Append(list, text)) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  tt_cache_show(false, false);
  tt_lower_for_tpu(false);
  return list;
}

/* set_options(text or None): XLA options for what this thread compiles; returns those before. The text has to live on.
 */
static PyObject *set_options(PyObject *self, PyObject *arg) {
  (void)self;
  const char *list = arg == Py_None ? NULL : PyUnicode_AsUTF8(arg);
  if (!list && PyErr_Occurred()) return NULL;
  const char *before = tt_options_own(list);
  if (!before) Py_RETURN_NONE;
  return PyUnicode_FromString(before);
}

static PyObject *make_dist_backend(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *host, *store, *ranks;
  const char *name;
  return PyArg_ParseTuple(args, "OOOs", &host, &store, &ranks, &name) ? dist_backend(host, store, ranks, name) : NULL;
}

static PyMethodDef methods[] = {
    {"dist_backend", make_dist_backend, METH_VARARGS,
     "dist_backend(host, store, ranks, name): the c10d Backend for tpu tensors over the c10d Backend host"},
    {"set_lazy_init", set_lazy_init, METH_O,
     "set_lazy_init(fn): fn() is called at first use of the device, and calls init"},
    {"init", (PyCFunction)(void (*)(void))init, METH_VARARGS | METH_KEYWORDS,
     "init(plugin_path, n_devices=0): makes the client"},
    {"is_initialized", is_initialized, METH_NOARGS, "whether the client is made"},
    {"device_count", device_count, METH_NOARGS, "how many devices there are; makes the client"},
    {"current_device", current_device, METH_NOARGS, "this thread's device"},
    {"set_device", set_device, METH_O, "set_device(i)"},
    {"synchronize", synchronize, METH_O, "synchronize(i): waits for all work of a device"},
    {"platform", platform, METH_NOARGS, "the plugin's platform: cpu, tpu"},
    {"device_kind", device_kind, METH_O, "device_kind(i)"},
    {"plugin_path", plugin_path, METH_NOARGS, "the plugin's file"},
    {"plugin_build", plugin_build, METH_NOARGS, "what identifies the plugin's very file"},
    {"memory", memory, METH_O, "memory(i) -> (limit, in use) as the plugin reports; 0 and -1: unknown"},
    {"counters", counters, METH_NOARGS, "counters() -> dict"},
    {"reset_peak", reset_peak, METH_O, "reset_peak(device): its peak_bytes starts again at live_bytes"},
    {"memory_stats", memory_stats, METH_O, "memory_stats(device) -> dict"},
    {"memory_holders", memory_holders, METH_O,
     "memory_holders(device) -> [(address, bytes, dtype, dims, made by or None)], largest first"},
    {"rng_get", rng_get, METH_O, "rng_get(device) -> (seed, offset)"},
    {"rng_set", rng_set, METH_VARARGS, "rng_set(device, seed, offset)"},
    {"manual_seed_all", manual_seed_all, METH_O, "manual_seed_all(seed)"},
    {"default_generator", default_generator, METH_O, "default_generator(i) -> torch.Generator"},
    {"in_bad_fork", in_bad_fork, METH_NOARGS, "whether this is a child forked after the client was made"},
    {"empty_cache", empty_cache, METH_NOARGS, "lets go of the buffers kept for numbers"},
    {"set_memory_limit", set_memory_limit, METH_VARARGS,
     "set_memory_limit(device, bytes): what live buffers may take; 0: no limit"},
    {"mode_settings", mode_settings, METH_NOARGS, "the calling thread's: a mode, 0 strict 1 debug 2 fuse"},
    {"mode_set", mode_set, METH_O, "mode_set(settings): the process's"},
    {"mode_enter", mode_enter, METH_O, "mode_enter(settings) -> what mode_leave takes: settings of this thread's own"},
    {"mode_leave", mode_leave, METH_O, "mode_leave(before)"},
    {"compiles", compiles, METH_NOARGS,
     "[(operator, parts of its key, place, milliseconds)] of what was compiled, in order"},
    {"cache_folder", cache_folder, METH_O, "cache_folder(shared) -> path or None"},
    {"cache_key", cache_key, METH_O, "cache_key(text) -> the name under which this process looks for a program"},
    {"cache_bring", cache_bring, METH_O, "cache_bring(text): it is in the cache afterwards"},
    {"cache_check", cache_check, METH_O,
     "cache_check(path): whether the file is a whole entry of the cache under its own name"},
    {"fuse_wait", fuse_wait, METH_O,
     "fuse_wait(stop): waits until no program is being compiled in the background; stop: none begins any more, at "
     "once"},
    {"fuse_counters", fuse_counters, METH_NOARGS, "how windows of DeferAndFuse were flushed and run"},
    {"flush", flush, METH_NOARGS, "submits what DeferAndFuse has recorded"},
    {"env_table", env_table, METH_NOARGS, "every environment variable: [(name, meaning)]"},
    {"bench_execute", bench_execute, METH_O,
     "bench_execute(n): nanoseconds of one bare PJRT execution of add on f32[8,8]"},
    {"set_decompose", set_decompose, METH_O, "set_decompose(fn): fn(name, args) lowers operators without a rule"},
    {"graph_register", graph_register, METH_VARARGS, "graph_register(fn, outputs) -> handle for torch_tpu::graph_call"},
    {"show_programs", show_programs, METH_VARARGS,
     "show_programs(only, for_tpu=False): keep the texts of this thread's programs; only: compile nothing"},
    {"custom_call_register", custom_call_register, METH_VARARGS,
     "custom_call_register(target, address): an XLA_FFI_Handler for custom calls on the CPU"},
    {"foreign_register", foreign_register, METH_VARARGS,
     "foreign_register(key, entry, text): functions in StableHLO, of which torch_tpu::foreign(args, key) calls entry"},
    {"lowers_for_tpu", lowers_for_tpu, METH_NOARGS, "whether programs that this thread makes now are for a TPU"},
    {"mark_absent", mark_absent, METH_O, "mark_absent(address): the contents of the tensor there are elsewhere"},
    {"trace_place", trace_place, METH_VARARGS,
     "trace_place(file or None, line): where what this thread traces from now on comes from"},
    {"shown_programs", shown_programs, METH_NOARGS, "shown_programs() -> the texts kept; no more are"},
    {"set_options", set_options, METH_O, "set_options(text or None): XLA options of what this thread compiles"},
    {"graph_release", graph_release, METH_O, "graph_release(handle)"},
    {"note_codes", note_codes, METH_O,
     "note_codes(dict or None): the code objects that this thread calls from now on go there, with their globals; "
     "None: no more do"},
    {"first_changed", first_changed, METH_O,
     "first_changed([(kind, container, key, value, ...)]) -> where the first is that no longer holds"},
    {"topology_devices", topology_devices, METH_VARARGS,
     "topology_devices(plugin_path, topology) -> [(id, process, (x, y, z), core, cores, kind)]"},
    {"aot_compile", aot_compile, METH_VARARGS,
     "aot_compile(plugin_path, topology, program, devices=1, options=None): StableHLO text compiled for a topology"},
    {"aot_memory", aot_memory, METH_O, "aot_memory(compiled) -> {kind: bytes of one device}"},
    {"aot_costs", aot_costs, METH_O, "aot_costs(compiled) -> {name: number}, as the plugin tells"},
    {"aot_serialize", aot_serialize, METH_O, "aot_serialize(compiled) -> bytes"},
    {"aot_fill", aot_fill, METH_VARARGS,
     "aot_fill(compiled, text) -> name: puts it where a process on such a machine looks for the program text"},
    {"aot_optimized", aot_optimized, METH_O, "aot_optimized(compiled) -> (bytes, format): the optimized program"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "torch_tpu._C", "The native part of torch_tpu.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__C(void) {
  PyObject *torch = PyImport_ImportModule("torch"); /* its libraries have to be here first */
  if (!torch) return NULL;
  Py_DECREF(torch);
  tt_error err = {0};
  unsigned settings;
  if (tt_mode_from_env(&settings, &err) || shim_register(&err)) return raise_error(&err);
  return PyModule_Create(&module);
}
