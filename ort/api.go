package ort

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Functions of ONNX Runtime's C interface that the Go binding does not wrap. OrtApi is an append-only table of
// function pointers, so an index is valid in every later release.
enum {
	VERSION = 29,
	GET_ERROR_MESSAGE = 2,
	CREATE_ENV = 3,
	CREATE_TENSOR_WITH_DATA = 49,
	CREATE_MEMORY_INFO = 68,
	CREATE_CPU_MEMORY_INFO = 69,
	RELEASE_ENV = 92,
	RELEASE_STATUS = 93,
	RELEASE_MEMORY_INFO = 94,
	RELEASE_VALUE = 96,
	ADD_INITIALIZER = 150,
	RELEASE_ARENA_CFG = 157,
	CREATE_ARENA_CFG = 164,
	UNREGISTER_ALLOCATOR = 177,
	ADD_EXTERNAL_INITIALIZERS = 210,
	CREATE_AND_REGISTER_ALLOCATOR = 259,
};

typedef struct {
	void **(*api)(uint32_t version);
	const char *(*version)(void);
} api_base;

// api_open finds the table in the library that the binding has loaded.
static const char *api_open(const char *library, void ***api) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) return dlerror();
	const api_base *(*base)(void) = (const api_base *(*)(void))dlsym(handle, "OrtGetApiBase");
	if (!base) return dlerror();
	*api = base()->api(VERSION);
	return *api ? NULL : "version 29 of the C API is not supported";
}

// failure frees a status and returns its message, which the caller frees; NULL if there was no error.
static char *failure(void **api, void *status) {
	if (!status) return NULL;
	char *message = strdup(((const char *(*)(void *))api[GET_ERROR_MESSAGE])(status));
	((void (*)(void *))api[RELEASE_STATUS])(status);
	return message;
}

static char *api_tensor(void **api, void *data, size_t bytes, const int64_t *shape, size_t rank, int type,
		void **value) {
	void *memory = NULL;
	char *failed = failure(api, ((void *(*)(int, int, void **))api[CREATE_CPU_MEMORY_INFO])(1, 0, &memory));
	if (failed) return failed;
	failed = failure(api, ((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))
		api[CREATE_TENSOR_WITH_DATA])(memory, data, bytes, shape, rank, type, value));
	((void (*)(void *))api[RELEASE_MEMORY_INFO])(memory);
	return failed;
}

static char *api_add_initializer(void **api, void *options, const char *name, void *value) {
	return failure(api, ((void *(*)(void *, const char *, void *))api[ADD_INITIALIZER])(options, name, value));
}

static char *api_add_external(void **api, void *options, const char *name, void *value) {
	return failure(api, ((void *(*)(void *, const char *const *, void *const *, size_t))api[ADD_EXTERNAL_INITIALIZERS])(
		options, &name, &value, 1));
}

// api_arena creates the arena of a CUDA device for sessions with session.use_env_allocators, or removes it if open is
// 0; sessions that use it keep it.
static char *api_arena(void **api, int device, int open, size_t limit, size_t remainder, size_t first) {
	void *env = NULL, *memory = NULL, *config = NULL;
	const char *keys[] = {"max_mem", "max_dead_bytes_per_chunk", "arena_extend_strategy",
		"initial_chunk_size_bytes"};
	size_t values[] = {limit, remainder, 0, first}; // 0: regions of powers of two
	// the process's only environment, which the binding has created: this counts another reference
	char *failed = failure(api, ((void *(*)(int, const char *, void **))api[CREATE_ENV])(4, "", &env));
	if (!failed)
		failed = failure(api, ((void *(*)(const char *, int, int, int, void **))api[CREATE_MEMORY_INFO])("Cuda", 1, device,
			0, &memory));
	if (!failed && open)
		failed = failure(api, ((void *(*)(const char *const *, const size_t *, size_t, void **))api[CREATE_ARENA_CFG])(
			keys, values, 4, &config));
	if (!failed && open)
		failed = failure(api, ((void *(*)(void *, const char *, void *, void *, const char *const *, const char *const *,
			size_t))api[CREATE_AND_REGISTER_ALLOCATOR])(env, "CUDAExecutionProvider", memory, config, NULL, NULL, 0));
	if (!failed && !open)
		failed = failure(api, ((void *(*)(void *, void *))api[UNREGISTER_ALLOCATOR])(env, memory));
	if (config) ((void (*)(void *))api[RELEASE_ARENA_CFG])(config);
	if (memory) ((void (*)(void *))api[RELEASE_MEMORY_INFO])(memory);
	if (env) ((void (*)(void *))api[RELEASE_ENV])(env);
	return failed;
}

static void api_release_value(void **api, void *value) {
	if (value) ((void (*)(void *))api[RELEASE_VALUE])(value);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// api is the runtime's function table, looked up once.
var api = sync.OnceValues(func() (*unsafe.Pointer, error) {
	path, err := load()
	if err != nil {
		return nil, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var table *unsafe.Pointer
	if text := C.api_open(name, (**unsafe.Pointer)(unsafe.Pointer(&table))); text != nil {
		return nil, fmt.Errorf("%s: %s", path, C.GoString(text))
	}
	return table, nil
})

// failedStatus turns a status into an error, and frees it.
func failedStatus(table *unsafe.Pointer, status unsafe.Pointer) error {
	return failed(C.failure(table, status))
}

// failed turns a message of the C functions above into an error, and frees it.
func failed(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(message))
	return errors.New(C.GoString(message))
}

// tensorOver returns a runtime value over memory that it neither copies nor frees; element is ONNX Runtime's number
// of the element type.
func tensorOver(data []byte, shape []int64, element int) (unsafe.Pointer, error) {
	table, err := api()
	if err != nil {
		return nil, err
	}
	var value unsafe.Pointer
	var sizes *C.int64_t
	if len(shape) > 0 {
		sizes = (*C.int64_t)(unsafe.Pointer(&shape[0]))
	}
	err = failed(
		C.api_tensor(table, unsafe.Pointer(&data[0]), C.size_t(len(data)), sizes, C.size_t(len(shape)), C.int(element),
			&value),
	)
	return value, err
}

func releaseValue(value unsafe.Pointer) {
	if table, err := api(); err == nil {
		C.api_release_value(table, value)
	}
}

// addInitializer makes a session use a value instead of the model's initializer of that name: the value's own memory,
// which must be on the session's device, or a copy, for which the model's must be in a file.
func addInitializer(so *onnxruntime.SessionOptions, name string, value unsafe.Pointer, copied bool) error {
	table, err := api()
	if err != nil {
		return err
	}
	options, err := handle(so)
	if err != nil {
		return err
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	if copied {
		return failed(C.api_add_external(table, options, text, value))
	}
	return failed(C.api_add_initializer(table, options, text, value))
}

// valueOf wraps a runtime value in the binding's type.
func valueOf(value unsafe.Pointer) (onnxruntime.ValueInternalData, error) {
	var out onnxruntime.ValueInternalData
	t := reflect.TypeOf(out)
	if t.NumField() != 1 || t.Field(0).Type.Kind() != reflect.Pointer {
		return out, errors.New(
			"the layout of the Go binding's values differs from version 1.35: update ort/api.go")
	}
	*(*unsafe.Pointer)(unsafe.Pointer(&out)) = value
	return out, nil
}

// handle returns the runtime's own session options: the binding's only field, which is not exported.
func handle(so *onnxruntime.SessionOptions) (unsafe.Pointer, error) {
	t := reflect.TypeFor[onnxruntime.SessionOptions]()
	if t.NumField() != 1 || t.Field(0).Type.Kind() != reflect.Pointer {
		return nil, errors.New(
			"the layout of the Go binding's SessionOptions differs from version 1.35: update ort/api.go")
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(so)), nil
}

// registerArena creates the arena of a device, or removes it. In bytes: limit, 0: none; the arena's first region.
func registerArena(d device, open bool, limit, first int64) error {
	table, err := api()
	if err != nil {
		return err
	}
	var opens C.int
	if open {
		opens = 1
	}
	return failed(C.api_arena(table, C.int(d), opens, C.size_t(limit), arenaRemainder, C.size_t(first)))
}
