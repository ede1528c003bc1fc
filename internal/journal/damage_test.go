package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/fuzzing"
)

// TestDamage: a journal with a damaged byte yields no result that was not written.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	head := map[string]string{"in": "a.jsonl"}
	j, _, err := Open[result](path, head)
	if err != nil {
		t.Fatal(err)
	}
	var want []result
	for i := range 50 {
		want = append(want, result{i * 7919, fmt.Sprint("text ", i)})
	}
	if err := j.Write(want...); err != nil {
		t.Fatal(err)
	}
	j.Close()
	fuzzing.Damage(t, 1000, []string{path}, func() (bool, error) {
		j, done, err := Open[result](path, head)
		if err != nil {
			return true, nil
		}
		j.Close()
		if len(done) > len(want) || !slices.Equal(done, want[:len(done)]) {
			return false, fmt.Errorf("it reads %v", done)
		}
		return len(done) < len(want), nil
	})
}

// TestEarlierJournals: lines without a checksum are read.
func TestEarlierJournals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.progress")
	if err := os.WriteFile(path, []byte("{}\n{\"Row\":1}\n{\"Row\":2}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	j, done, err := Open[result](path, struct{}{})
	if err != nil || len(done) != 2 {
		t.Fatalf("got %v, %v, want 2 results", done, err)
	}
	j.Close()
}
