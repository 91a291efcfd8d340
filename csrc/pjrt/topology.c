/* topology.c: compiling for machines that are not here. libtpu knows its topologies by name and needs no chip for it. */
#include <string.h>
#include "pjrt/call.h"

struct tt_topology {
  tt_plugin *plugin;
  PJRT_TopologyDescription *topology;
};

tt_topology *tt_topology_create(tt_plugin *p, const char *name, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_ARGS(PJRT_TopologyDescription_Create_Args, args, .topology_name = name, .topology_name_size = strlen(name));
  tt_pjrt_begin();
  int saved = tt_quiet_begin(p->path);
  tt_code code = PJRT_CALL(p, PJRT_TopologyDescription_Create, &args, err);
  tt_quiet_end(saved);
  if (code) return NULL;
  tt_topology *t = tt_alloc(sizeof *t);
  if (t) {
    *t = (tt_topology){p, args.topology};
    return t;
  }
  PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, destroy, .topology = args.topology);
  PJRT_DROP(p, PJRT_TopologyDescription_Destroy, &destroy);
  tt_no_memory(err, sizeof *t);
  return NULL;
}

void tt_topology_destroy(tt_topology *t) {
  if (!t) return;
  PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, destroy, .topology = t->topology);
  PJRT_DROP(t->plugin, PJRT_TopologyDescription_Destroy, &destroy);
  tt_free(t);
}

tt_code tt_topology_compile(tt_topology *t, const char *text, size_t length, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  static const char options[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01}; /* one replica, one partition */
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE, .code = (char *)text, .code_size = length,
                          .format = "mlir", .format_size = 4};
  PJRT_ARGS(PJRT_Compile_Args, args, .topology = t->topology, .program = &program, .compile_options = options,
            .compile_options_size = sizeof options);
  if (PJRT_CALL(t->plugin, PJRT_Compile, &args, err)) return err->code;
  PJRT_ARGS(PJRT_Executable_Destroy_Args, destroy, .executable = args.executable);
  PJRT_DROP(t->plugin, PJRT_Executable_Destroy, &destroy);
  return TT_OK;
}
