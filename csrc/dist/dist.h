/* dist.h: what the extension module asks of the process group (C++): plain C on both sides. */
#ifndef TT_DIST_H
#define TT_DIST_H
#ifdef __cplusplus
extern "C" {
#endif

/* A c10d Backend for tensors on tpu that moves bytes by the c10d Backend host (Gloo), as a new Python object. store is
 * the group's c10d Store; ranks, a list of ints, are its members in the world; name is what errors call it. All are
 * Python objects, borrowed. NULL with an exception set. GIL. */
void *dist_backend(void *host, void *store, void *ranks, const char *name);

#ifdef __cplusplus
}
#endif
#endif
