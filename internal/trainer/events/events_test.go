package events

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// write makes the file that tools/oracle/events.py makes with TensorBoard's own writer.
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
		t.Error("a file that is too short was taken")
	}
}
