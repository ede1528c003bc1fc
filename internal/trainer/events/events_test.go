package events

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write writes the file that tools/oracle/events.py writes with TensorBoard's own writer.
func write(t *testing.T, path string) *Writer {
	t.Helper()
	w, err := Open(path, 0, 1700000000.25)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		step    int64
		wall    float64
		scalars []Scalar
	}{
		{0, 1700000001.5, []Scalar{{"loss/train", 10.910788}}},
		{1, 1700000002.5, []Scalar{{"loss/train", 9.132059}, {"lr", 2e-5}}},
		{300, 1700000003.5, []Scalar{{"validation/spearman", -0.25}, {"été", 0}}},
	} {
		if err := w.Add(e.step, e.wall, e.scalars...); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestBytesAsTensorBoardWritesThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	w := write(t, path)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/events.out.tfevents.1700000000.oracle")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes\n%x\nwant %d\n%x", len(got), got, len(want), want)
	}
	if w.Size() != int64(len(got)) {
		t.Errorf("Size %d of %d", w.Size(), len(got))
	}
}

func TestGoesOnWhereItWasCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	w := write(t, path)
	at := w.Size()
	if err := w.Add(301, 1, Scalar{"doubled", 1}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	w, err := Open(path, at, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(301, 2, Scalar{"once", 1}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	got, _ := os.ReadFile(path)
	if bytes.Contains(got, []byte("doubled")) || !bytes.Contains(got, []byte("once")) ||
		bytes.Count(got, []byte("brain")) != 1 {
		t.Errorf("%q", got)
	}
	if _, err := Open(path, 1<<20, 0); err == nil {
		t.Error("a file that is too short was accepted")
	}
}

// TestRead: our files, starting at any event, and TensorBoard's own file are read; an incomplete record is left for
// later, and a damaged one is an error.
func TestRead(t *testing.T) {
	const oracle = "testdata/events.out.tfevents.1700000000.oracle"
	float := func(v float64) float64 { return float64(float32(v)) }
	want := []Event{
		{0, 1700000001.5, []Scalar{{"loss/train", float(10.910788)}}},
		{1, 1700000002.5, []Scalar{{"loss/train", float(9.132059)}, {"lr", float(2e-5)}}},
		{300, 1700000003.5, []Scalar{{"validation/spearman", -0.25}, {"été", 0}}},
	}
	var got []Event
	all, err := Read(oracle, 0, func(e Event) bool { got = append(got, e); return true })
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("got error %v, events (-want +got):\n%s", err, d)
	}
	at, _ := Read(oracle, 0, func(e Event) bool { return e.Step < 1 })
	got = nil
	if next, err := Read(oracle, at, func(e Event) bool { got = append(got, e); return true }); next != all || err != nil {
		t.Errorf("got end %d, error %v, want %d", next, err, all)
	}
	if d := cmp.Diff(want[1:], got); d != "" {
		t.Errorf("from the second event on (-want +got):\n%s", d)
	}
	raw, err := os.ReadFile(oracle)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x")
	for size := range raw {
		if err := os.WriteFile(path, raw[:size], 0o666); err != nil {
			t.Fatal(err)
		}
		n := 0
		next, err := Read(path, 0, func(Event) bool { n++; return true })
		if err != nil || next > int64(size) || n > 2 {
			t.Fatalf("the first %d bytes: got %d events up to %d, error %v", size, n, next, err)
		}
	}
	raw[len(raw)-10]++
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 0, func(Event) bool { return true }); err == nil {
		t.Error("a damaged record: got no error")
	}
}
