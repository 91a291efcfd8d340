/* custom_call.c: handlers in C for custom calls, by the PJRT extension of plugins for XLA's foreign functions.
 *
 * The header of that extension is not among the plugins'; what is used of it is declared here as it is in memory since
 * version 0.81 of the PJRT C API. Before it held one field more, so that older plugins are refused. */
#include "tt_custom_call.h"
#include <string.h>
#include "pjrt/call.h"

typedef struct {
  size_t struct_size;
  const char *target_name;
  size_t target_name_size;
  void *handler; /* an XLA_FFI_Handler */
  const char *platform_name;
  size_t platform_name_size;
  unsigned traits;
} ffi_register_args;

typedef struct {
  PJRT_Extension_Base base;
  void *register_type, *add_user_data;
  PJRT_Error *(*register_handler)(ffi_register_args *args);
} ffi_extension;

enum { SINCE = 81 };

static const ffi_extension *find(const PJRT_Api *api) {
  if (api->pjrt_api_version.minor_version < SINCE) return NULL;
  for (const PJRT_Extension_Base *e = api->extension_start; e; e = e->next)
    if (e->type == PJRT_Extension_Type_FFI && e->struct_size >= sizeof(ffi_extension)) return (const ffi_extension *)e;
  return NULL;
}

tt_code tt_custom_call_register(tt_client *c, const char *target, void *handler, tt_error *err) {
  static const char name[] = "PJRT_FFI_Register_Handler", host[] = "Host";
  if (!handler || !*target) return tt_fail(err, TT_INVALID_ARGUMENT, name, "expected a name and a handler");
  if (!c->is_cpu)
    return tt_fail(err, TT_UNIMPLEMENTED, name, "%s: custom calls in C run on the CPU, and the device is a %s", target,
                   c->platform);
  const PJRT_Api *api = c->plugin->api;
  const ffi_extension *ffi = find(api);
  if (!ffi || !ffi->register_handler)
    return tt_fail(err, TT_UNIMPLEMENTED, name, "%s: the plugin %s has no FFI extension of version 0.%d or "
                   "newer, so that it runs no custom calls of others", target, c->plugin->path, SINCE);
  ffi_register_args args = {.struct_size = sizeof args,
                            .target_name = target,
                            .target_name_size = strlen(target),
                            .handler = handler,
                            .platform_name = host,
                            .platform_name_size = sizeof host - 1};
  return tt_pjrt_enter(api, true, name, err) ? tt_pjrt_leave(api, ffi->register_handler(&args), name, err) : err->code;
}
