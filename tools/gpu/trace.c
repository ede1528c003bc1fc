// Writes the GPU activity of a process, and slow CUDA calls, to $TRACE_OUT, for trace.py. A process that does not end with
// exit (such as Go's) loses the last fifth of a second.
//
//	gcc -O2 -shared -fPIC -o build/trace.so tools/gpu/trace.c -I$CUPTI/include -L$CUPTI/lib -l:libcupti.so.13 -lpthread
//	TRACE_OUT=steps CUDA_INJECTION64_PATH=$PWD/build/trace.so train --config scorer.yaml
//	python tools/gpu/trace.py steps 0.5
#include <cupti.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *records) {
	*size = 1 << 20;
	*buffer = aligned_alloc(8, *size);
	*records = 0;
}

static void row(char kind, uint64_t start, uint64_t end, unsigned on, const char *name) {
	fprintf(out, "%c\t%llu\t%llu\t%u\t%s\n", kind, (unsigned long long)start, (unsigned long long)end, on, name);
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
	CUpti_Activity *r = NULL;
	pthread_mutex_lock(&lock);
	while (cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_SUCCESS) {
		switch (r->kind) {
		case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
			CUpti_ActivityKernel9 *k = (CUpti_ActivityKernel9 *)r;
			row('K', k->start, k->end, k->streamId, k->name);
			break;
		}
		case CUPTI_ACTIVITY_KIND_MEMCPY: {
			CUpti_ActivityMemcpy5 *k = (CUpti_ActivityMemcpy5 *)r;
			char name[64];
			snprintf(name, sizeof name, "copy, memory of kind %d to %d", k->srcKind, k->dstKind);
			row('C', k->start, k->end, k->streamId, name);
			break;
		}
		case CUPTI_ACTIVITY_KIND_MEMSET: {
			CUpti_ActivityMemset4 *k = (CUpti_ActivityMemset4 *)r;
			row('S', k->start, k->end, k->streamId, "memset");
			break;
		}
		case CUPTI_ACTIVITY_KIND_RUNTIME:
		case CUPTI_ACTIVITY_KIND_DRIVER: {
			CUpti_ActivityAPI *k = (CUpti_ActivityAPI *)r;
			const char *name = "?";
			cuptiGetCallbackName(r->kind == CUPTI_ACTIVITY_KIND_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API,
				k->cbid, &name);
			if (k->end - k->start > 3000) row('A', k->start, k->end, k->threadId, name);
			break;
		}
		default:
			break;
		}
	}
	fflush(out);
	pthread_mutex_unlock(&lock);
	free(buffer);
}

static void *flush(void *unused) {
	for (;;) {
		usleep(200000);
		cuptiActivityFlushAll(1);
	}
	return unused;
}

int InitializeInjection(void) {
	const char *path = getenv("TRACE_OUT");
	if (!path || !(out = fopen(path, "w"))) return 1;
	cuptiActivityRegisterCallbacks(give, take);
	CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
		CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) cuptiActivityEnable(kinds[i]);
	pthread_t thread;
	pthread_create(&thread, NULL, flush, NULL);
	return 1;
}
