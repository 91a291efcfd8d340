/* client.c: a plugin's devices, by number, with what is asked about them kept.
 *
 * Names and kinds are asked once, when the client is made; only memory figures are asked again. Refuses to guess: what
 * a plugin does not report is unknown, 0 or -1. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pjrt/call.h"

static tt_code choose_target(tt_client *c, tt_error *err) {
  const char *target = tt_env("TORCH_TPU_TARGET");
  if (target && strcmp(target, "tpu") && strcmp(target, "cpu"))
    return tt_fail(err, TT_INVALID_ARGUMENT, "", "TORCH_TPU_TARGET: expected tpu or cpu, got %s", target);
  c->for_tpu = !strcmp(target ? target : c->platform, "tpu");
  return TT_OK;
}

static tt_code describe(tt_client *c, tt_error *err) {
  tt_plugin *p = c->plugin;
  PJRT_ARGS(PJRT_Client_PlatformName_Args, platform, .client = c->client);
  if (PJRT_CALL(p, PJRT_Client_PlatformName, &platform, err)) return err->code;
  snprintf(c->platform, sizeof c->platform, "%.*s", (int)platform.platform_name_size, platform.platform_name);
  c->is_cpu = !strcmp(c->platform, "cpu") || !strcmp(c->platform, "Host");
  PJRT_ARGS(PJRT_Client_AddressableDevices_Args, devices, .client = c->client);
  if (PJRT_CALL(p, PJRT_Client_AddressableDevices, &devices, err)) return err->code;
  c->devices = devices.addressable_devices;
  c->n_devices = (int)devices.num_addressable_devices;
  if (!c->n_devices) return tt_fail(err, TT_NOT_FOUND, "", "the plugin %s shows no device", p->path);
  if (!(c->kinds = tt_alloc((size_t)c->n_devices * sizeof *c->kinds)))
    return tt_no_memory(err, (size_t)c->n_devices * sizeof *c->kinds);
  for (int i = 0; i < c->n_devices; i++) {
    PJRT_ARGS(PJRT_Device_GetDescription_Args, get, .device = c->devices[i]);
    if (PJRT_CALL(p, PJRT_Device_GetDescription, &get, err)) return err->code;
    PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, kind, .device_description = get.device_description);
    if (PJRT_CALL(p, PJRT_DeviceDescription_Kind, &kind, err)) return err->code;
    snprintf(c->kinds[i], sizeof c->kinds[i], "%.*s", (int)kind.device_kind_size, kind.device_kind);
  }
  return TT_OK;
}

/* ---- the end of the process: a plugin's statics must not go while its threads use them ---- */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tt_client *clients;

static void wait_for_devices(void) {
  if (tt_forked()) return;
  pthread_mutex_lock(&lock);
  for (tt_client *c = clients; c; c = c->next)
    for (int i = 0; i < c->n_devices; i++) (void)tt_client_synchronize(c, i, NULL);
  pthread_mutex_unlock(&lock);
}
void tt_wait_at_exit(void) { atexit(wait_for_devices); }

static void enlist(tt_client *c) {
  pthread_mutex_lock(&lock);
  c->next = clients;
  clients = c;
  pthread_mutex_unlock(&lock);
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, tt_wait_at_exit);
}

static void delist(tt_client *c) {
  if (tt_forked()) return;
  pthread_mutex_lock(&lock);
  tt_client **at = &clients;
  while (*at && *at != c) at = &(*at)->next;
  if (*at) *at = c->next;
  pthread_mutex_unlock(&lock);
}

tt_client *tt_client_create(tt_plugin *p, int n_devices, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  tt_client *c = tt_alloc(sizeof *c);
  if (!c) {
    tt_no_memory(err, sizeof *c);
    return NULL;
  }
  c->plugin = p;
  static const char count[] = "cpu_device_count"; /* an option of XLA's CPU plugins; others may reject it */
  PJRT_NamedValue option = {.struct_size = PJRT_NamedValue_STRUCT_SIZE, .name = count, .name_size = sizeof count - 1,
                            .type = PJRT_NamedValue_kInt64, .int64_value = n_devices, .value_size = 1};
  PJRT_ARGS(PJRT_Client_Create_Args, create, .create_options = &option,
            .num_options = n_devices > 0 && tt_plugin_is_cpu(p->path));
  tt_pjrt_begin();
  int saved = tt_quiet_begin(p->path);
  tt_code code = PJRT_CALL(p, PJRT_Client_Create, &create, err);
  tt_quiet_end(saved);
  tt_buf options = {0};
  if (!code) {
    c->client = create.client;
    code = describe(c, err);
  }
  if (!code) code = choose_target(c, err);
  if (!code) code = tt_options_write(c->is_cpu, &options, err);
  c->options = options.data;
  c->options_length = options.length;
  if (!code) code = tt_inflight_create(c, err);
  if (!code) {
    enlist(c);
    return c;
  }
  tt_client_destroy(c);
  return NULL;
}

void tt_client_destroy(tt_client *c) {
  if (!c) return;
  delist(c);
  tt_inflight_destroy(c);
  if (c->client) {
    PJRT_ARGS(PJRT_Client_Destroy_Args, destroy, .client = c->client);
    PJRT_DROP(c->plugin, PJRT_Client_Destroy, &destroy);
  }
  tt_free(c->options);
  tt_free(c->kinds);
  tt_free(c);
}

tt_plugin *tt_client_plugin(const tt_client *c) { return c->plugin; }
const char *tt_client_platform(const tt_client *c) { return c->platform; }
static _Thread_local bool for_tpu; /* this thread's programs, whatever the client is */
void tt_lower_for_tpu(bool yes) { for_tpu = yes; }
bool tt_client_lowers_for_tpu(const tt_client *c) { return for_tpu || c->for_tpu; }
int tt_client_device_count(const tt_client *c) { return c->n_devices; }
const char *tt_client_device_kind(const tt_client *c, int device) { return c->kinds[device]; }
const void *tt_compile_options(tt_client *c, size_t *length) {
  *length = c->options_length;
  return tt_options_with_own(c->options, length);
}
tt_process tt_client_process(tt_client *c) {
  tt_process p = {.build = tt_plugin_build(c->plugin), .kind = c->is_cpu ? NULL : c->kinds[0]};
  p.options = tt_compile_options(c, &p.length);
  return p;
}

void tt_client_device_memory(const tt_client *c, int device, int64_t *limit, int64_t *in_use) {
  tt_error ignored;
  PJRT_ARGS(PJRT_Device_MemoryStats_Args, stats, .device = c->devices[device]);
  *limit = 0;
  *in_use = -1;
  if (PJRT_CALL(c->plugin, PJRT_Device_MemoryStats, &stats, &ignored)) return;
  *in_use = stats.bytes_in_use;
  if (stats.bytes_limit_is_set) *limit = stats.bytes_limit;
}
