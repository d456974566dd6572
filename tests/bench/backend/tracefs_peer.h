/* tracefs_printf() of libtracefs, the peer to beat. */
#ifndef TRACEFS_PEER_H
#define TRACEFS_PEER_H
#ifdef __cplusplus
extern "C" {
#endif
int tracefs_peer_open(const char* name);
int tracefs_peer_write(unsigned long addr, unsigned value, unsigned size);
void tracefs_peer_close(void);
#ifdef __cplusplus
}
#endif
#endif
