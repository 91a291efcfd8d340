/* shim.h: what the extension module (C) asks of the shim (C++): plain C on both sides, so that neither sees the other's
 * headers. Functions that return a tt_code fill err and never throw; those marked "GIL" want it held. */
#ifndef TT_SHIM_H
#define TT_SHIM_H
#include "tt.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Registers the device with torch: names, allocator, guard, hooks and every operator. Once, at import. GIL. */
tt_code shim_register(tt_error *err);
/* How the client is made at first use: ask() says, under the GIL, which plugin and how many devices; it calls
 * shim_init. */
void shim_set_lazy_init(tt_code (*ask)(tt_error *err));
tt_code shim_init(const char *plugin_path, int n_devices, tt_error *err);
bool shim_initialized(void);
tt_client *shim_client_or_error(tt_error *err); /* made if need be; NULL on failure */

int shim_current_device(void);
tt_code shim_set_device(int device, tt_error *err); /* of this thread */

void *shim_default_generator(
    int device); /* a new torch.Generator over the device's default state, or NULL with the exception set. GIL */

/* A context in which the calling thread, and autograd's threads while they work for it, have settings of their own.
 * Returns what shim_mode_leave takes, which the same thread calls. */
unsigned shim_mode_enter(unsigned settings);
void shim_mode_leave(unsigned before);

void shim_fallback_counts(void (*each)(void *arg, const char *op, int64_t count), void *arg);

/* Decompositions: run(name, args) is called for operators without a C rule. Borrows fn. GIL. */
void shim_set_decompose(void *fn /* PyObject */);
/* Captured graphs: fn(written, read) is traced once for each kind of inputs. Returns a handle, or -1. GIL. */
int64_t shim_graph_register(void *fn /* PyObject */, int n_outputs, const tt_output *outputs, tt_error *err);
void shim_graph_release(int64_t handle); /* GIL */

#ifdef __cplusplus
}
#endif
#endif
