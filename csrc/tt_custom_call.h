/* tt_custom_call.h: functions in C that programs on the CPU call by name.
 *
 * StableHLO's `custom_call @target(...) {api_version = 4 : i32}` runs the handler that is registered under the name
 * target, of the type XLA_FFI_Handler in xla/ffi/api/c_api.h, a header of XLA's that the package jaxlib has:
 * examples/custom_call.c is one. */
#ifndef TT_CUSTOM_CALL_H
#define TT_CUSTOM_CALL_H
#include "tt.h"
#ifdef __cplusplus
extern "C" {
#endif

/* handler: for all programs that the client's plugin compiles from now on; kept for ever, called by any thread.
 * UNIMPLEMENTED where the plugin has no FFI extension, or its device is no CPU. Plugins keep the first handler of a name,
 * and leave out without a word those that tell a version of the interface that they do not have: a program that calls
 * one does not compile. Any thread. */
TT_API tt_code tt_custom_call_register(tt_client *client, const char *target, void *handler, tt_error *err);

#ifdef __cplusplus
}
#endif
#endif
