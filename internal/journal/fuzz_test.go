package journal

import (
	"os"
	"testing"

	"assay/internal/fuzzing"
)

// FuzzOpen: whatever a crash left in a journal, it is opened or refused; an opened journal can be appended to and is
// then read back in full.
func FuzzOpen(f *testing.F) {
	x := fuzzing.New(f)
	x.Add([]byte("{\"in\":\"a\"}\n{\"Row\":1}\n{\"Row\":2}\n"))
	x.Add([]byte("{\"in\":\"a\"}\n{\"Row\":1}\n{\"Ro"))
	x.Add([]byte("{\"in"))
	type result struct{ Row int }
	path := fuzzing.File(f, "journal")
	head := map[string]string{"in": "a"}
	x.Run(func(t testing.TB, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var j *Journal[result]
		var done []result
		var err error
		fuzzing.Bounded(t, 4<<20+64*uint64(len(raw)), func() { j, done, err = Open[result](path, head) })
		if err != nil {
			return
		}
		if err := j.Write(result{7}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		j, again, err := Open[result](path, head)
		if err != nil {
			t.Fatal(err)
		}
		j.Close()
		if len(again) != len(done)+1 || again[len(done)].Row != 7 {
			t.Errorf("got %d results after one more than %d, want it as row 7", len(again), len(done))
		}
	})
}
