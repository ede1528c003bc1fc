package ort

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// CUDAEnv is the environment variable with the default [CUDAOptions] for all sessions of a process:
// "memory_limit=20GB,cudnn_search=heuristic,kernels=plain", or some of these.
const CUDAEnv = "ASSAY_CUDA"

// orEnvironment fills options that are not set from [CUDAEnv].
func (o CUDAOptions) orEnvironment() (CUDAOptions, error) {
	text := os.Getenv(CUDAEnv)
	if text == "" {
		return o, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		var err error
		switch key {
		case "memory_limit":
			var n int64
			if n, err = bytesOf(value); err == nil && o.MemoryLimit == 0 {
				o.MemoryLimit = n
			}
		case "cudnn_search":
			o.CudnnSearch = cmp.Or(o.CudnnSearch, value)
		case "kernels":
			o.Kernels = cmp.Or(o.Kernels, value)
		default:
			err = fmt.Errorf("option %q is unknown: want memory_limit, cudnn_search, kernels", key)
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", CUDAEnv, err)
		}
	}
	if err := o.Check(); err != nil {
		return o, fmt.Errorf("%s: %w", CUDAEnv, err)
	}
	return o, nil
}

// KernelsOfEnvironment returns the kernels that [CUDAEnv] sets; "" if it sets none.
func KernelsOfEnvironment() (string, error) {
	o, err := CUDAOptions{}.orEnvironment()
	return o.Kernels, err
}

// bytesOf parses a number of bytes, with or without a unit.
func bytesOf(text string) (int64, error) {
	number, factor := text, 1.0
	for _, u := range []struct {
		name  string
		bytes float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"GB", 1e9}, {"MB", 1e6}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, factor = n, u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(f > 0 && f*factor < 1<<62) {
		return 0, fmt.Errorf("memory_limit %q is not a size: want a number of bytes, or a size such as 20GB or 512MiB", text)
	}
	return int64(f * factor), nil
}
