// Package fuzzing has what the fuzz tests share: seeds from files ([Files]), a limit on the memory that an input may
// allocate ([Bounded]), fuzzing without coverage, which is faster ([Target]), and single damaged bytes in files
// ([Damage]).
package fuzzing

import (
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"
)

// Files returns the contents of the files that match the patterns and have at most most bytes. A mutation of a long
// file rarely hits what matters, and takes longer.
func Files(f *testing.F, most int64, patterns ...string) [][]byte {
	f.Helper()
	var seeds [][]byte
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("no seeds match %s (%v)", pattern, err)
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err != nil || info.IsDir() || info.Size() > most {
				continue
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			seeds = append(seeds, raw)
		}
	}
	if len(seeds) == 0 {
		f.Fatalf("no file of at most %d bytes matches %v", most, patterns)
	}
	return seeds
}

// Bounded runs decode and fails if it allocates more than limit bytes. Allocations of the fuzzing engine meanwhile
// count as well, so a limit must leave a few MiB for them.
func Bounded(t testing.TB, limit uint64, decode func()) {
	t.Helper()
	before := allocated()
	decode()
	if used := allocated() - before; used > limit {
		t.Errorf("got %d bytes allocated, want at most %d", used, limit)
	}
}

func allocated() uint64 {
	sample := [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}

// File returns a path with this name that the process may overwrite for every input: cheaper than a folder per input.
func File(f *testing.F, name string) string {
	f.Helper()
	return filepath.Join(f.TempDir(), name)
}
