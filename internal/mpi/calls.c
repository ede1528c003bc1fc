//go:build mpi

#include "calls.h"
#include <stdlib.h>
#include <string.h>

static MPI_Comm job, signs;
static MPI_Request pending = MPI_REQUEST_NULL;

int start(int *rank, int *size, int *local) {
	int provided, err;
	MPI_Comm node;
	if ((err = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided))) return err;
	if (provided < MPI_THREAD_SERIALIZED) return MPI_ERR_UNSUPPORTED_OPERATION;
	if ((err = MPI_Comm_dup(MPI_COMM_WORLD, &job))) return err;
	if ((err = MPI_Comm_dup(MPI_COMM_WORLD, &signs))) return err;
	MPI_Comm_set_errhandler(job, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(signs, MPI_ERRORS_RETURN);
	if ((err = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node))) return err;
	MPI_Comm_rank(node, local);
	MPI_Comm_free(&node);
	MPI_Comm_rank(job, rank);
	return MPI_Comm_size(job, size);
}

int gather(void *mine, int n, void *all) {
	return MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, job, &pending);
}

int gather_parts(void *mine, int n, void *all, int *counts, int *places) {
	return MPI_Iallgatherv(mine, n, MPI_BYTE, all, counts, places, MPI_BYTE, job, &pending);
}

int deal(void *out, int *out_counts, int *out_places, void *in, int *in_counts, int *in_places) {
	return MPI_Ialltoallv(out, out_counts, out_places, MPI_FLOAT, in, in_counts, in_places, MPI_FLOAT, job, &pending);
}

int collect(void *mine, int n, void *all) {
	return MPI_Iallgather(mine, n, MPI_FLOAT, all, n, MPI_FLOAT, job, &pending);
}

int sum(void *values, int n) {
	return MPI_Iallreduce(MPI_IN_PLACE, values, n, MPI_FLOAT, MPI_SUM, job, &pending);
}

int done(int *flag) { return MPI_Test(&pending, flag, MPI_STATUS_IGNORE); }

// Heartbeats: one message of a fixed size at a time to each rank.
static char *sign_texts;
static MPI_Request *sign_sent;

void signs_begin(int size) {
	sign_texts = calloc(size, SIGN);
	sign_sent = malloc(size * sizeof(MPI_Request));
	for (int i = 0; i < size; i++) sign_sent[i] = MPI_REQUEST_NULL;
}

int sign_send(int to, char *text) {
	int gone = 1, err = MPI_Test(&sign_sent[to], &gone, MPI_STATUS_IGNORE);
	if (err || !gone) return err; // the last one has not been received yet
	memcpy(sign_texts + to * SIGN, text, SIGN);
	return MPI_Isend(sign_texts + to * SIGN, SIGN, MPI_BYTE, to, 0, signs, &sign_sent[to]);
}

int sign_take(int *from, char *text) {
	MPI_Status s;
	int there = 0, err = MPI_Iprobe(MPI_ANY_SOURCE, 0, signs, &there, &s);
	*from = -1;
	if (err || !there) return err;
	*from = s.MPI_SOURCE;
	return MPI_Recv(text, SIGN, MPI_BYTE, s.MPI_SOURCE, 0, signs, MPI_STATUS_IGNORE);
}

void describe(int err, char *text, int *n) { MPI_Error_string(err, text, n); }
void end_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }
int max_text(void) { return MPI_MAX_ERROR_STRING; }
