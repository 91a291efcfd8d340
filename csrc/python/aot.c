/* aot.c: what torch_tpu.aot asks of a topology and of the programs compiled for one. */
#include "python/python.h"
#include "graph/cache.h"

/* Topologies are kept: hundreds of programs are checked against the same one. Under the GIL. */
static struct known {
  char *path, *name;
  tt_topology *topology;
  struct known *next;
} *topologies;

static tt_topology *topology(const char *path, const char *name, tt_error *err) {
  for (struct known *k = topologies; k; k = k->next)
    if (!strcmp(k->path, path) && !strcmp(k->name, name)) return k->topology;
  tt_plugin *p = tt_plugin_load(path, err);
  tt_topology *t = p ? tt_topology_create(p, name, err) : NULL;
  struct known *k = t ? calloc(1, sizeof *k) : NULL;
  if (!k || !(k->path = strdup(path)) || !(k->name = strdup(name))) return t;
  k->topology = t;
  k->next = topologies;
  topologies = k;
  return t;
}

static tt_topology *parse_topology(PyObject *args, tt_error *err) {
  const char *path, *name;
  return PyArg_ParseTuple(args, "ss", &path, &name) ? topology(path, name, err) : NULL;
}

PyObject *topology_devices(PyObject *self, PyObject *args) {
  (void)self;
  tt_error err = {0};
  tt_topology *t = parse_topology(args, &err);
  if (!t) return raise_error(&err);
  int n = tt_topology_device_count(t);
  PyObject *list = PyList_New(n);
  for (int i = 0; list && i < n; i++) {
    tt_topology_device d;
    if (tt_topology_device_get(t, i, &d, &err)) {
      Py_DECREF(list);
      return raise_error(&err);
    }
    PyObject *row =
        Py_BuildValue("(ii(iii)iis)", d.id, d.process, d.coords[0], d.coords[1], d.coords[2], d.core, d.cores, d.kind);
    if (!row) Py_CLEAR(list);
    else PyList_SET_ITEM(list, i, row);
  }
  return list;
}

static const char AOT[] = "torch_tpu.aot";

static void aot_free(PyObject *capsule) { tt_aot_destroy(PyCapsule_GetPointer(capsule, AOT)); }

PyObject *aot_compile(PyObject *self, PyObject *args) {
  (void)self;
  const char *path, *name, *text, *options = NULL;
  Py_ssize_t length;
  int devices = 1;
  if (!PyArg_ParseTuple(args, "sss#|iz", &path, &name, &text, &length, &devices, &options)) return NULL;
  tt_error err = {0};
  tt_topology *t = topology(path, name, &err);
  if (!t) return raise_error(&err);
  tt_aot *made;
  Py_BEGIN_ALLOW_THREADS made = tt_aot_compile(t, text, (size_t)length, devices, options, &err);
  Py_END_ALLOW_THREADS if (!made) return raise_error(&err);
  PyObject *capsule = PyCapsule_New(made, AOT, aot_free);
  if (!capsule) tt_aot_destroy(made);
  return capsule;
}

PyObject *aot_memory(PyObject *self, PyObject *capsule) {
  (void)self;
  tt_aot *a = PyCapsule_GetPointer(capsule, AOT);
  tt_error err = {0};
  tt_aot_memory m;
  if (!a || tt_aot_memory_get(a, &m, &err)) return raise_error(&err);
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}", "code", (long long)m.code, "argument", (long long)m.argument,
                       "output", (long long)m.output, "alias", (long long)m.alias, "temporary", (long long)m.temporary,
                       "peak", (long long)m.peak);
}

static void add_cost(void *dict, const char *name, size_t length, double value) {
  PyObject *key = PyUnicode_FromStringAndSize(name, (Py_ssize_t)length), *number = PyFloat_FromDouble(value);
  if (key && number) PyDict_SetItem(dict, key, number);
  Py_XDECREF(key);
  Py_XDECREF(number);
}

PyObject *aot_costs(PyObject *self, PyObject *capsule) {
  (void)self;
  tt_aot *a = PyCapsule_GetPointer(capsule, AOT);
  tt_error err = {0};
  PyObject *dict = PyDict_New();
  if (dict && a && !tt_aot_costs(a, add_cost, dict, &err) && !PyErr_Occurred()) return dict;
  Py_XDECREF(dict);
  return raise_error(&err);
}

PyObject *aot_serialize(PyObject *self, PyObject *capsule) {
  (void)self;
  tt_aot *a = PyCapsule_GetPointer(capsule, AOT);
  tt_error err = {0};
  tt_buf bytes = {0};
  PyObject *result = NULL;
  if (a && !tt_aot_serialize(a, &bytes, &err)) result = PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.length);
  tt_buf_deinit(&bytes);
  return result ? result : raise_error(&err);
}

PyObject *aot_optimized(PyObject *self, PyObject *capsule) {
  (void)self;
  tt_aot *a = PyCapsule_GetPointer(capsule, AOT);
  tt_error err = {0};
  tt_buf bytes = {0};
  const char *format;
  PyObject *result = NULL;
  if (a && !tt_aot_optimized(a, &bytes, &format, &err))
    result = Py_BuildValue("(y#s)", bytes.data, (Py_ssize_t)bytes.length, format);
  tt_buf_deinit(&bytes);
  return result ? result : raise_error(&err);
}

PyObject *aot_fill(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *capsule;
  const char *text;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "Os#", &capsule, &text, &length)) return NULL;
  tt_aot *a = PyCapsule_GetPointer(capsule, AOT);
  tt_error err = {0};
  tt_digest key;
  tt_code code = TT_OK;
  if (!a) return NULL;
  Py_BEGIN_ALLOW_THREADS code = tt_cache_fill(a, text, (size_t)length, &key, &err);
  Py_END_ALLOW_THREADS if (code) return raise_error(&err);
  return digest_text(key);
}
