package labeling

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"testing"

	"assay/internal/shards"
)

// TestRepeats: all names that occur more than once are found, and with 64-bit hashes no others.
func TestRepeats(t *testing.T) {
	r := newRepeats()
	for i := range 10_000 {
		for range 1 + i%3 {
			r.add(fmt.Sprint("name ", i))
		}
	}
	r.found()
	for i := range 10_000 {
		if got, want := r.has(fmt.Sprint("name ", i)), i%3 > 0; got != want {
			t.Fatalf("name %d: %v, want %v", i, got, want)
		}
	}
	if r.has("another") {
		t.Error("a name that was not added: got true, want false")
	}
}

// TestMergeMemory: merging holds only a few bytes of a unique row, whatever its id and instruction.
func TestMergeMemory(t *testing.T) {
	held := func(samples int) (bytes, rows int) {
		var list []string
		for i := range samples {
			list = append(
				list,
				fmt.Sprintf("an id of some length as data sets have them %d,%s,%s,%s,aurora,make it number %d,0.1,0.9,0.9",
					i, one, three, two, i),
			)
		}
		source := colouredTable(t, "id,source,edit,target,method,instruction,clip_d,clip_i,dino_i", list...)
		c := load(t, "out: out\nprofile: adiee-released\nsources: ["+source+"]\nencoders: {given: keep}\n")
		j, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if err := measure(t.Context(), j, models{}, shards.Ref{}, nil); err != nil {
			t.Fatal(err)
		}
		before := alive()
		m, err := j.merger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.log.skipped = json.NewEncoder(io.Discard)
		if err := m.compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.survey(t.Context()); err != nil {
			t.Fatal(err)
		}
		bytes = alive() - before
		runtime.KeepAlive(m)
		return bytes, m.log.report.Rows
	}
	few, fewRows := held(1000)
	many, manyRows := held(5000)
	each := float64(many-few) / float64(manyRows-fewRows)
	t.Logf("%d rows hold %d bytes, %d rows %d: %.1f bytes a row", fewRows, few, manyRows, many, each)
	if each > 40 {
		t.Errorf("got %.1f bytes held of a row, want at most 40", each)
	}
}

// alive returns the number of bytes in use on the heap.
func alive() int {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}
