/* compile.c: compiles every case on a real plugin: does what the golden files show mean anything to XLA?
 *
 * usage: compile PLUGIN [TOPOLOGY]. With a topology ("v5e:2x2") the plugin compiles for machines that are not here. */
#include <stdio.h>

#include "cases.h"
#include "pjrt/pjrt.h"

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: compile PLUGIN [TOPOLOGY]\n"), 2;
  tt_error err = {0};
  tt_plugin *plugin = tt_plugin_load(argv[1], &err);
  tt_topology *topology = plugin && argc > 2 ? tt_topology_create(plugin, argv[2], &err) : NULL;
  tt_client *client = plugin && argc == 2 ? tt_client_create(plugin, 1, &err) : NULL;
  if (!topology && !client) return fprintf(stderr, "%s: %s\n", argv[1], err.message), 1;
  int passed = 0, failed = 0;
  for (int i = 0; i < hlo_case_count; i++) {
    hlo_module *m = NULL;
    size_t length = 0;
    tt_error why = {0};
    const char *text = hlo_case_text(&hlo_cases[i], &m, &length, &why);
    bool ok = false;
    if (text && topology) {
      tt_aot *a = tt_aot_compile(topology, text, length, 1, NULL, &why);
      ok = a != NULL;
      tt_aot_destroy(a);
    } else if (text) {
      tt_executable *e = tt_executable_compile(client, text, length, &why);
      ok = e != NULL;
      if (e) tt_executable_release(e);
    }
    if (ok) passed++;
    else failed++, printf("FAIL %s: %s\n", hlo_cases[i].name, why.message);
    hlo_module_destroy(m);
  }
  tt_topology_destroy(topology);
  tt_client_destroy(client);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
