package ort

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestMemoryViews: values in device memory are read and written in place, one as both input and output, and
// half-precision values are not converted, unlike other inputs and outputs.
func TestMemoryViews(t *testing.T) {
	for _, typ := range []onnx.DType{onnx.Float, onnx.Float16} {
		b := onnx.NewBuilder("bound", 23)
		past := b.Input("past", typ, onnx.Dims("n", 2))
		at := b.Input("at", onnx.Int64, onnx.Dims("k", 1))
		rows := b.OpA("Cast", onnx.Attrs{"to": typ}, b.Input("rows", onnx.Float, onnx.Dims("k", 2)))
		b.Op("ScatterND", past, at, rows)
		b.Last().Outputs[0] = "present"
		present := onnx.ValueInfo{Name: "present", Type: typ, Shape: onnx.Dims("n", 2), Ranked: true}
		b.M.Outputs = append(b.M.Outputs, present)
		wide := b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, "present")
		sum := b.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, wide, b.Ints(0))
		b.Output("sum", sum, onnx.Float, onnx.Dims(2))
		s, err := Open(b.M, Options{Bound: map[string]bool{"past": true, "present": true}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		size := int64(typ.Size())
		m, err := NewMemory("cpu", 8*size)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		in := map[string]*tensor.Dense{
			"at":   tensor.New(tensor.WithShape(1, 1), tensor.WithBacking([]int64{1})),
			"rows": tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float32{1, 2})),
		}
		view, err := m.View(2*size, typ, 3, 2) // all but the first of four rows
		if err != nil {
			t.Fatal(err)
		}
		defer view.Free()
		for round := range 2 {
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				in["at"].Data().([]int64)[0] = int64(round)
				out, err := s.RunWith(context.Background(), in, nil,
					Views{In: map[string]*View{"past": view}, Out: map[string]*View{"present": view}})
				if err != nil {
					t.Fatal(err)
				}
				if n := float32(round + 1); out["sum"].Data().([]float32)[1] != 2*n || len(out) != 1 {
					t.Errorf("%v, round %d: got %v, want sum with %v in it", typ, round, out, 2*n)
				}
			})
		}
		want := []float64{0, 0, 1, 2, 1, 2, 0, 0}
		for i, w := range want {
			got := float64(onnx.Float16Value(binary.LittleEndian.Uint16(m.Host()[2*i:])))
			if typ == onnx.Float {
				got = float64(math.Float32frombits(binary.LittleEndian.Uint32(m.Host()[4*i:])))
			}
			if got != w {
				t.Errorf("%v: number %d in memory is %g, want %g", typ, i, got, w)
			}
		}
		refuseViews(t, s, in, m, view)
	}
}

// refuseViews passes views that the session does not know or that do not fit, each of which must fail.
func refuseViews(t *testing.T, s *Session, in map[string]*tensor.Dense, m *Memory, view *View) {
	t.Helper()
	of := func(typ onnx.DType, shape ...int64) *View {
		v, err := m.View(0, typ, shape...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Free)
		return v
	}
	for want, views := range map[string][2]*View{
		"is missing":     {view, nil},
		`"past" (`:       {nil, view},
		"tensor of int8": {of(onnx.Int8, 3, 2), view},
		"shape [2 3]":    {view, of(view.typ, 2, 3)},
		"shape [3 2 1]":  {of(view.typ, 3, 2, 1), view},
	} {
		t.Run(want, func(t *testing.T) {
			on := Views{In: map[string]*View{}, Out: map[string]*View{}}
			if views[0] != nil {
				on.In["past"] = views[0]
			}
			if views[1] != nil {
				on.Out["present"] = views[1]
			}
			if _, err := s.RunWith(context.Background(), in, nil, on); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	for _, at := range []int64{-1, m.Bytes() - 1} {
		if v, err := m.View(at, view.typ, 1); err == nil {
			t.Errorf("a view at byte %d: got %v, want an error", at, v)
		}
	}
}

// TestCopyBlocks: equally spaced blocks are copied, and only within their memory.
func TestCopyBlocks(t *testing.T) {
	m, err := NewMemory("cpu", 24)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	copyBlocks(t, m, func() string { return string(m.Host()) }, func(s string) { copy(m.Host(), s) })
	for _, name := range []string{"tpu", "cuda:x"} {
		t.Run(name, func(t *testing.T) {
			if m, err := NewMemory(name, 8); err == nil {
				t.Errorf("memory of %s: got %v, want an error", name, m)
			}
		})
	}
	if m, err := NewMemory("cpu", 0); err == nil {
		t.Errorf("memory of no bytes: got %v, want an error", m)
	}
}

func copyBlocks(t *testing.T, m *Memory, read func() string, write func(string)) {
	t.Helper()
	if got := read(); got != strings.Repeat("\x00", 24) {
		t.Errorf("new memory: got %q, want zeros", got)
	}
	write("abcdefghijklmnopqrstuvwx")
	if err := CopyBlocks(Blocks{m, 12, 4}, Blocks{m, 0, 6}, 2, 2); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "abcdefghijklabopghstuvwx" {
		t.Errorf("got %q, want %q", got, "abcdefghijklabopghstuvwx")
	}
	for _, b := range []Blocks{{m, 20, 4}, {m, -1, 4}, {m, 12, 1}} {
		if err := CopyBlocks(b, Blocks{m, 0, 6}, 2, 2); err == nil {
			t.Errorf("copying to %+v: got error %v, want one", b, err)
		}
	}
}

// stub is a fake CUDA runtime library with host memory.
const stub = `
#include <stdlib.h>
#include <string.h>
static int device = -1, last;
int cudaSetDevice(int d) { if (d > 1) return last = 101; device = d; return 0; }
int cudaMalloc(void **p, size_t n) { if (n > 1000) return last = 2; *p = malloc(n); memset(*p, 7, n); return 0; }
int cudaFree(void *p) { free(p); return 0; }
int cudaHostAlloc(void **p, size_t n, unsigned flags) {
	if (n > 1000 || flags != 1) return last = 2;
	*p = malloc(n);
	return 0;
}
int cudaFreeHost(void *p) { if (device != 1) return last = 101; memset(p, 9, 4); free(p); return 0; }
int cudaMemset(void *p, int v, size_t n) { memset(p, v, n); return 0; }
int cudaMemcpy(void *to, const void *from, size_t n, int kind) {
	if (kind != 1 && kind != 2) return last = 21;
	memcpy(to, from, n);
	return 0;
}
int cudaMemcpy2D(void *to, size_t ts, const void *from, size_t fs, size_t w, size_t h, int kind) {
	if (kind != 3) return last = 21;
	for (size_t i = 0; i < h; i++) memcpy((char *)to + i * ts, (const char *)from + i * fs, w);
	return 0;
}
int cudaStreamSynchronize(void *stream) { return stream ? last = 400 : 0; }
int cudaMemGetInfo(size_t *free, size_t *total) { *free = 700 + device; *total = 1000; return 0; }
int cudaDeviceGetAttribute(int *value, int which, int device) {
	*value = which == 75 ? 8 : 6;
	return device > 1 || (which != 75 && which != 76) ? (last = 101) : 0;
}
int assay_ops_kernels(int major, int minor) { return 100 * major + minor; }
int cudaGetLastError(void) { int e = last; last = 0; return e; }
const char *cudaGetErrorString(int e) {
	return last ? "an error was left behind" : e == 2 ? "out of memory" : "invalid";
}
`

const stubChild = "ASSAY_TEST_CUDART"

// TestCUDAMemory tests GPU memory with a fake CUDA runtime library, in a child process.
func TestCUDAMemory(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "stub.c")
	if err := os.WriteFile(source, []byte(stub), 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "libcudart.so.13")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("compiling: got error %v, want none: %s", err, out)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestCUDAMemoryChild$", "-test.v")
	child.Env = append(os.Environ(), stubChild+"=1", "LD_LIBRARY_PATH="+dir, FusedEnv+"="+library)
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("the child: got error %v, want none: %s", err, out)
	}
}

// TestCUDAMemoryChild is the process that loads the stub.
func TestCUDAMemoryChild(t *testing.T) {
	if os.Getenv(stubChild) == "" {
		t.Skip("run by TestCUDAMemory")
	}
	m := &Memory{device: 1, bytes: 24}
	var err error
	if m.at, err = cudaTake(1, 24); err != nil {
		t.Fatal(err)
	}
	host := *(**[24]byte)(unsafe.Pointer(&m.at))
	copyBlocks(t, m, func() string { return string(host[:]) }, func(s string) { copy(host[:], s) })
	wrote, got := []float32{1.5, -2}, make([]float32, 2)
	if err := m.Write(8, wrote); err != nil {
		t.Fatal(err)
	}
	if err := m.Read(8, got); err != nil || !slices.Equal(got, wrote) || host[8+3] != 0x3f {
		t.Errorf("read what was written: got %v, %v, want %v", got, err, wrote)
	}
	if _, err := cudaTake(0, 1001); err == nil || err.Error() != "out of memory" {
		t.Errorf("allocating too much: got error %v, want %q", err, "out of memory")
	}
	if _, err := cudaTake(5, 1); err == nil || err.Error() != "invalid" {
		t.Errorf("allocating on an unknown device: got error %v, want %q", err, "invalid")
	}
	for n, locked := range map[int]bool{250: true, 251: false} { // ordinary memory if it cannot be pinned
		b := NewHostBuffer("cuda:1", n)
		if len(b.Values()) != n || (b.locked != 0) != locked {
			t.Errorf("a buffer of %d numbers: got %d, pinned %t, want %t", n, len(b.Values()), b.locked != 0, locked)
		}
		b.Values()[n-1] = 3
		if free, _, err := cudaMemory(0); err != nil || free != 700 { // makes another device current
			t.Errorf("got %d bytes free, %v, want 700", free, err)
		}
		for range 2 {
			if err := b.Close(); err != nil || b.Values() != nil {
				t.Errorf("closing: got error %v and %d numbers, want none", err, len(b.Values()))
			}
		}
	}
	if free, total, err := cudaMemory(1); err != nil || free != 701 || total != 1000 {
		t.Errorf("got %d of %d bytes free, %v, want 701 of 1000", free, total, err)
	}
	if n, err := FusedKernels("cuda:1"); err != nil || n != 806 {
		t.Errorf("got %d fused kernels, %v, want those for 8.6", n, err)
	}
	if _, err := FusedKernels("cuda:2"); err == nil || err.Error() != "compute capability of cuda:2: invalid" {
		t.Errorf("kernels of no device: got error %v", err)
	}
	t.Setenv(FusedEnv, os.Args[0])
	if _, err := FusedKernels("cuda:1"); err == nil || err.Error() != "cannot open "+os.Args[0] {
		t.Errorf("kernels of no library: got error %v", err)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
