/* topology.h: what a topology is, for the two files that use it. */
#ifndef TT_TOPOLOGY_H
#define TT_TOPOLOGY_H
#include "pjrt/call.h"

struct tt_topology {
  tt_plugin *plugin;
  PJRT_TopologyDescription *topology;
  PJRT_DeviceDescription *const *devices; /* the description's */
  int n_devices;
};
#endif
