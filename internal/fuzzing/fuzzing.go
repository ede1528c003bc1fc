// Package fuzzing is what the fuzz tests share: seeds from files, and a bound on the memory that an input may cost.
package fuzzing

import (
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"
)

// Files returns the contents of the files that the patterns match and that have at most most bytes. A mutation of a
// long file rarely hits what matters, and takes longer.
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

// Bounded runs decode and fails if it allocates more than limit bytes. What the fuzzing engine allocates meanwhile
// counts, too, so a limit leaves it a few MiB.
func Bounded(t testing.TB, limit uint64, decode func()) {
	t.Helper()
	before := allocated()
	decode()
	if used := allocated() - before; used > limit {
		t.Errorf("%d bytes were allocated, at most %d are allowed", used, limit)
	}
}

func allocated() uint64 {
	sample := [1]metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample[:])
	return sample[0].Value.Uint64()
}

// File returns a path of that name whose file the same process may write anew for every input: cheaper than a folder
// each.
func File(f *testing.F, name string) string {
	f.Helper()
	return filepath.Join(f.TempDir(), name)
}
