/* options.c: the few fields of XLA's CompileOptionsProto we set, written as protobuf by hand.
 *
 * CompileOptionsProto { ExecutableBuildOptionsProto executable_build_options = 3; bool compile_portable_executable = 4;
 * map<string, OptionOverrideProto> env_option_overrides = 7; }; ExecutableBuildOptionsProto { int64 num_replicas = 4;
 * int64 num_partitions = 5; }; OptionOverrideProto { oneof { string = 1; bool = 2; int64 = 3; double = 4; } }.
 * Refuses what it cannot read in TORCH_TPU_XLA_OPTIONS, instead of passing it over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pjrt/call.h"

enum { LONGEST = 512 }; /* of one name=value */

static void put_varint(tt_buf *b, uint64_t v) {
  for (; v > 127; v >>= 7) tt_buf_append(b, &(char){(char)(v | 128)}, 1);
  tt_buf_append(b, &(char){(char)v}, 1);
}

static void put_bytes(tt_buf *b, int field, const void *data, size_t n) {
  put_varint(b, (uint64_t)field << 3 | 2);
  put_varint(b, n);
  tt_buf_append(b, data, n);
}

static void put_int(tt_buf *b, int field, uint64_t v) {
  put_varint(b, (uint64_t)field << 3);
  put_varint(b, v);
}

/* One name=value: a bool, an integer, a float or a string, by how the value reads. */
static void put_override(tt_buf *b, const char *name, size_t name_length, const char *value, size_t length) {
  tt_buf entry = {0}, option = {0};
  char text[LONGEST + 1], *end;
  snprintf(text, sizeof text, "%.*s", (int)length, value);
  long long integer = strtoll(text, &end, 10);
  if (!strcmp(text, "true") || !strcmp(text, "false")) {
    put_int(&option, 2, text[0] == 't');
  } else if (*text && !*end) {
    put_int(&option, 3, (uint64_t)integer);
  } else {
    double number = strtod(text, &end);
    if (*text && !*end) {
      put_varint(&option, 4 << 3 | 1);
      tt_buf_append(&option, &number, 8);
    } else {
      put_bytes(&option, 1, text, strlen(text));
    }
  }
  put_bytes(&entry, 1, name, name_length);
  put_bytes(&entry, 2, option.data, option.length);
  put_bytes(b, 7, entry.data, entry.length);
  b->failed |= entry.failed || option.failed;
  tt_buf_deinit(&entry);
  tt_buf_deinit(&option);
}

static tt_code put_overrides(tt_buf *b, const char *p, const char *where, tt_error *err) {
  while (p && *p) {
    size_t n = strcspn(p, ",");
    const char *equals = memchr(p, '=', n);
    if (!equals || equals == p || n > LONGEST)
      return tt_fail(err, TT_INVALID_ARGUMENT, where, "expected name=value,name=value, got '%s'", p);
    put_override(b, p, (size_t)(equals - p), equals + 1, n - (size_t)(equals + 1 - p));
    p += n + (p[n] == ',');
  }
  return TT_OK;
}

/* The build options: so many replicas, of one partition each. */
static void put_build(tt_buf *b, int replicas) {
  tt_buf build = {0};
  put_int(&build, 4, (uint64_t)replicas);
  put_int(&build, 5, 1);
  put_bytes(b, 3, build.data, build.length);
  b->failed |= build.failed;
  tt_buf_deinit(&build);
}

tt_code tt_options_write(bool is_cpu, tt_buf *b, tt_error *err) {
  put_build(b, 1);
  put_int(b, 4, 1); /* portable: one executable serves every device of the client */
  /* XLA CPU's fast min and max lose NaN, which torch keeps. */
  static const char fast[] = "xla_cpu_enable_fast_min_max";
  if (is_cpu) put_override(b, fast, sizeof fast - 1, "false", 5);
  /* And by default it may leave out the rounding of f32 to f16 and back. */
  static const char excess[] = "xla_allow_excess_precision";
  if (is_cpu) put_override(b, excess, sizeof excess - 1, "false", 5);
  tt_code code = put_overrides(b, tt_env("TORCH_TPU_XLA_OPTIONS"), "TORCH_TPU_XLA_OPTIONS", err);
  return code ? code : b->failed ? tt_no_memory(err, b->length) : TT_OK;
}

tt_code tt_options_for(int replicas, const char *list, tt_buf *b, tt_error *err) {
  if (replicas > 1) put_build(b, replicas);
  else if (tt_options_write(false, b, err)) return err->code;
  tt_code code = put_overrides(b, list, "options", err);
  return code ? code : b->failed ? tt_no_memory(err, b->length) : TT_OK;
}

/* ---- options of one compile ---- */
static _Thread_local const char *own;

const char *tt_options_own(const char *list) {
  const char *before = own;
  own = list && *list ? list : NULL;
  return before;
}

bool tt_options_owned(void) { return own != NULL; }

/* Fields that come later win, so what is the compile's own follows what is the client's. */
const void *tt_options_with_own(const void *options, size_t *length) {
  static _Thread_local tt_buf both;
  if (!own) return options;
  tt_error ignored;
  both.length = 0;
  tt_buf_append(&both, options, *length);
  if (put_overrides(&both, own, "options", &ignored) || both.failed) {
    tt_buf_deinit(&both);
    both = (tt_buf){0};
    return options;
  }
  *length = both.length;
  return both.data;
}
