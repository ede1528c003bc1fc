package blocks

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// pieces records the largest write.
type pieces struct {
	bytes.Buffer
	most int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.most = max(p.most, len(b))
	return p.Buffer.Write(b)
}

func TestCopy(t *testing.T) {
	want := bytes.Repeat([]byte("block"), size/2)
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, want, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got pieces
	n, err := Copy(&got, f)
	if err != nil || n != int64(len(want)) || !bytes.Equal(got.Bytes(), want) || got.most != size {
		t.Errorf("%d of %d bytes, at most %d at a time (%v)", n, len(want), got.most, err)
	}
}
