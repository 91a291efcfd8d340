/* python.h: what the files of the extension module share. */
#ifndef TT_PYTHON_H
#define TT_PYTHON_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "base/base.h"

/* Sets the Python exception of *e, unless one is set already. Returns NULL. */
PyObject *raise_error(const tt_error *e);
PyObject *digest_text(tt_digest d); /* as files of the cache are named */

/* aot.c, with the GIL; module.c's table says what each takes */
PyObject *topology_devices(PyObject *self, PyObject *args);
PyObject *aot_compile(PyObject *self, PyObject *args);
PyObject *aot_memory(PyObject *self, PyObject *capsule);
PyObject *aot_costs(PyObject *self, PyObject *capsule);
PyObject *aot_serialize(PyObject *self, PyObject *capsule);
PyObject *aot_optimized(PyObject *self, PyObject *capsule);
PyObject *aot_fill(PyObject *self, PyObject *args);
/* watch.c */
PyObject *first_changed(PyObject *self, PyObject *list);
PyObject *note_codes(PyObject *self, PyObject *into);
#endif
