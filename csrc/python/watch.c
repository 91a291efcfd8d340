/* watch.c: whether what a traced step depended on in Python is still as it was: a list of places and of what stood
 * there, looked through without running any of the user's code. One lookup and one comparison of pointers for each. */
#include "python/python.h"

enum { ITEM, LENGTH, ATTRIBUTE, CELL, ABSENT, KEYS, TYPE };

/* Numbers, strings and the like are the same if they are equal (numbers with a point: by their bits, as -0.0 equals 0.0
 * and nan nothing); all else only if it is the same object. */
static int is_same(PyObject *now, PyObject *before) {
  if (now == before) return 1;
  if (!now || Py_TYPE(now) != Py_TYPE(before)) return 0;
  if (PyFloat_CheckExact(now)) {
    double a = PyFloat_AS_DOUBLE(now), b = PyFloat_AS_DOUBLE(before);
    return !memcmp(&a, &b, sizeof a);
  }
  bool plain = PyLong_CheckExact(now) || PyUnicode_CheckExact(now) || PyTuple_CheckExact(now) ||
               PyComplex_CheckExact(now) || PyBytes_CheckExact(now);
  if (PyTuple_CheckExact(now)) {
    Py_ssize_t n = PyTuple_GET_SIZE(now);
    if (n != PyTuple_GET_SIZE(before)) return 0;
    for (Py_ssize_t i = 0; i < n; i++) {
      int same = is_same(PyTuple_GET_ITEM(now, i), PyTuple_GET_ITEM(before, i));
      if (same != 1) return same;
    }
    return 1;
  }
  return plain ? PyObject_RichCompareBool(now, before, Py_EQ) : 0;
}

/* is_same of what a look-up gave, which is dropped; 0 where it failed because there is nothing, as the exception says. */
static int is_got(PyObject *now, PyObject *value, PyObject *nothing) {
  if (!now && PyErr_ExceptionMatches(nothing)) {
    PyErr_Clear();
    return 0;
  }
  int same = now ? is_same(now, value) : -1;
  Py_XDECREF(now);
  return same;
}

/* Whether a dict has these keys in this order. */
static int has_keys(PyObject *dict, PyObject *keys) {
  if (!PyDict_Check(dict) || !PyTuple_Check(keys) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return 0;
  Py_ssize_t at = 0, i = 0;
  for (PyObject *key; i < PyTuple_GET_SIZE(keys) && PyDict_Next(dict, &at, &key, NULL); i++) {
    Py_INCREF(key);
    int same = is_same(key, PyTuple_GET_ITEM(keys, i));
    Py_DECREF(key);
    if (same != 1) return same;
  }
  return i == PyTuple_GET_SIZE(keys);
}

/* 1, 0, or -1 with the exception set. place: (kind, container, key, value, ...) */
static int holds(PyObject *place) {
  if (!PyTuple_Check(place) || PyTuple_GET_SIZE(place) < 4) {
    PyErr_SetString(PyExc_TypeError, "expected (kind, container, key, value)");
    return -1;
  }
  PyObject *in = PyTuple_GET_ITEM(place, 1), *key = PyTuple_GET_ITEM(place, 2), *value = PyTuple_GET_ITEM(place, 3);
  switch (PyLong_AsLong(PyTuple_GET_ITEM(place, 0))) {
    case ITEM:
      if (PyDict_Check(in)) {
        PyObject *now = PyDict_GetItemWithError(in, key);
        return !now && PyErr_Occurred() ? -1 : is_same(now, value);
      }
      if (PyList_Check(in)) {
        Py_ssize_t i = PyLong_AsSsize_t(key);
        if (i == -1 && PyErr_Occurred()) return -1;
        return i >= 0 && i < PyList_GET_SIZE(in) && is_same(PyList_GET_ITEM(in, i), value);
      }
      if (PySet_Check(in)) return PySet_Contains(in, key);
      if (Py_IS_TYPE(in, &PyDictProxy_Type)) {  /* of a class */
        return is_got(PyObject_GetItem(in, key), value, PyExc_KeyError);
      }
      break;
    case LENGTH: {
      Py_ssize_t n = PyObject_Size(in);
      return n < 0 ? -1 : n == PyLong_AsSsize_t(value);
    }
    case ATTRIBUTE: return is_got(PyObject_GetAttr(in, key), value, PyExc_AttributeError);
    case TYPE: {
      PyObject *now = PyDict_Check(in) ? PyDict_GetItemWithError(in, key) : NULL;
      return !now && PyErr_Occurred() ? -1 : now && (PyObject *)Py_TYPE(now) == value;
    }
    case KEYS: return has_keys(in, value);
    case CELL:
      if (PyCell_Check(in)) return is_same(PyCell_GET(in), value);
      break;
    case ABSENT:
      if (PyCell_Check(in)) return PyCell_GET(in) == NULL;
      if (PyDict_Check(in)) {
        int there = PyDict_Contains(in, key);
        return there < 0 ? -1 : !there;
      }
      break;
    default: break;
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "not a place that can be watched");
  return -1;
}

PyObject *first_changed(PyObject *self, PyObject *list) {
  (void)self;
  if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "expected a list, got %s", Py_TYPE(list)->tp_name);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    int same = holds(PyList_GET_ITEM(list, i));
    if (same < 0) return NULL;
    if (!same) return PyLong_FromSsize_t(i);
  }
  Py_RETURN_NONE;
}

/* ---- which code runs: every call would go through Python otherwise, which doubles the time of what is watched ---- */
static int note_code(PyObject *codes, PyFrameObject *frame, int what, PyObject *argument) {
  (void)argument;
  if (what != PyTrace_CALL) return 0;
  PyCodeObject *code = PyFrame_GetCode(frame);
  int failed = PyDict_Contains(codes, (PyObject *)code);
  if (!failed) {
    PyObject *globals = PyFrame_GetGlobals(frame);
    failed = PyDict_SetItem(codes, (PyObject *)code, globals);
    Py_DECREF(globals);
  }
  Py_DECREF(code);
  return failed < 0 ? -1 : 0;
}

PyObject *note_codes(PyObject *self, PyObject *into) {
  (void)self;
  if (into != Py_None && !PyDict_Check(into))
    return PyErr_Format(PyExc_TypeError, "expected a dict or None, got %s", Py_TYPE(into)->tp_name);
  PyEval_SetProfile(into == Py_None ? NULL : note_code, into == Py_None ? NULL : into);
  Py_RETURN_NONE;
}
