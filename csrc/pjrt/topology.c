/* topology.c: machines that are not here. libtpu knows its topologies by name and needs no chip to describe them. */
#include <stdio.h>
#include <string.h>
#include "pjrt/call.h"
#include "pjrt/topology.h"

tt_topology *tt_topology_create(tt_plugin *p, const char *name, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_ARGS(PJRT_TopologyDescription_Create_Args, args, .topology_name = name, .topology_name_size = strlen(name));
  tt_pjrt_begin();
  int saved = tt_quiet_begin(p->path);
  tt_code code = PJRT_CALL(p, PJRT_TopologyDescription_Create, &args, err);
  tt_quiet_end(saved);
  if (code) return NULL;
  PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, get, .topology = args.topology);
  tt_topology *t = NULL;
  if (!PJRT_CALL(p, PJRT_TopologyDescription_GetDeviceDescriptions, &get, err)) {
    if ((t = tt_alloc(sizeof *t))) {
      *t = (tt_topology){p, args.topology, get.descriptions, (int)get.num_descriptions};
      return t;
    }
    tt_no_memory(err, sizeof *t);
  }
  PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, destroy, .topology = args.topology);
  PJRT_DROP(p, PJRT_TopologyDescription_Destroy, &destroy);
  return NULL;
}

void tt_topology_destroy(tt_topology *t) {
  if (!t) return;
  PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, destroy, .topology = t->topology);
  PJRT_DROP(t->plugin, PJRT_TopologyDescription_Destroy, &destroy);
  tt_free(t);
}

int tt_topology_device_count(const tt_topology *t) { return t->n_devices; }

static bool is_named(const PJRT_NamedValue *v, const char *name) {
  return v->name_size == strlen(name) && !memcmp(v->name, name, v->name_size);
}

tt_code tt_topology_device_get(const tt_topology *t, int i, tt_topology_device *out, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (i < 0 || i >= t->n_devices)
    return tt_fail(err, TT_OUT_OF_RANGE, "", "expected a device below %d, got %d", t->n_devices, i);
  PJRT_DeviceDescription *d = t->devices[i];
  PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id, .device_description = d);
  PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process, .device_description = d);
  PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, kind, .device_description = d);
  PJRT_ARGS(PJRT_DeviceDescription_Attributes_Args, all, .device_description = d);
  if (PJRT_CALL(t->plugin, PJRT_DeviceDescription_Id, &id, err) ||
      PJRT_CALL(t->plugin, PJRT_DeviceDescription_ProcessIndex, &process, err) ||
      PJRT_CALL(t->plugin, PJRT_DeviceDescription_Kind, &kind, err) ||
      PJRT_CALL(t->plugin, PJRT_DeviceDescription_Attributes, &all, err))
    return err->code;
  *out = (tt_topology_device){.id = id.id, .process = process.process_index, .cores = 1};
  snprintf(out->kind, sizeof out->kind, "%.*s", (int)kind.device_kind_size, kind.device_kind);
  for (size_t k = 0; k < all.num_attributes; k++) {
    const PJRT_NamedValue *v = &all.attributes[k];
    if (is_named(v, "coords") && v->type == PJRT_NamedValue_kInt64List)
      for (size_t axis = 0; axis < v->value_size && axis < 3; axis++)
        out->coords[axis] = (int)v->int64_array_value[axis];
    if (v->type != PJRT_NamedValue_kInt64) continue;
    if (is_named(v, "core_on_chip")) out->core = (int)v->int64_value;
    if (is_named(v, "num_cores")) out->cores = (int)v->int64_value;
  }
  return TT_OK;
}
