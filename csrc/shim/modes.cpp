// modes.cpp: a thread's mode goes where its work goes.
//
// torch hands a thread's named objects to the threads that run backward for it. The settings of a context are such an
// object: a name without a value, so that looking needs no GIL. Nothing is looked up while no context is open.
#include <ATen/ThreadLocalPythonObjects.h>
#include "shim/common.h"

namespace tpu {

using Objects = at::impl::ThreadLocalPythonObjects;

static const std::string &name_of(unsigned settings) {
  static const auto names = [] {
    std::array<std::string, TT_SETTINGS> all;
    for (unsigned i = 0; i < TT_SETTINGS; i++) all[i] = "torch_tpu.eager_mode." + std::to_string(i);
    return all;
  }();
  return names[settings];
}

static unsigned inherited() {
  for (unsigned i = 0; i < TT_SETTINGS; i++)
    if (Objects::contains(name_of(i))) return i;
  return TT_MODE_UNSET;
}

void register_modes() { tt_mode_set_inherited(inherited); }

} // namespace tpu

using namespace tpu;

unsigned shim_mode_enter(unsigned settings) {
  unsigned before = inherited();
  if (before != TT_MODE_UNSET) Objects::erase(name_of(before));
  Objects::set(name_of(settings), nullptr);
  return tt_mode_enter(settings) | before << 8;
}

void shim_mode_leave(unsigned before) {
  unsigned mine = inherited();
  if (mine != TT_MODE_UNSET) Objects::erase(name_of(mine));
  if (before >> 8 != TT_MODE_UNSET) Objects::set(name_of(before >> 8), nullptr);
  tt_mode_leave(before & 255);
}
