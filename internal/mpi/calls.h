// The few calls of libmpi that the package makes. Its handles are macros that Go cannot read, so they stay in calls.c.
// All of them return one of MPI's error codes.
#include <mpi.h>

int start(int *rank, int *size, int *local);
int gather(void *mine, int n, void *all);
int gather_parts(void *mine, int n, void *all, int *counts, int *places);
int deal(void *out, int *out_counts, int *out_places, void *in, int *in_counts, int *in_places);
int collect(void *mine, int n, void *all);
int sum(void *values, int n);
int done(int *flag);

enum { SIGN = 128 }; // bytes of a heartbeat

void signs_begin(int size);
int sign_send(int to, char *text);
int sign_take(int *from, char *text);

void describe(int err, char *text, int *n);
void end_all(int code);
int max_text(void);
