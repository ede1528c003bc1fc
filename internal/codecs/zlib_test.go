package codecs

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"assay/internal/fuzzing"
)

// inflated is a stream by a ZlibReader.
func inflated(stream []byte) (out []byte, left int, err error) {
	r := NewZlibReader(stream)
	defer r.Close()
	out, err = io.ReadAll(r)
	return out, r.Len(), err
}

// standard is inflated by compress/zlib.
func standard(stream []byte) (out []byte, left int, err error) {
	source := bytes.NewReader(stream)
	r, err := zlib.NewReader(source)
	if err != nil {
		return nil, 0, err
	}
	out, err = io.ReadAll(r)
	return out, source.Len(), err
}

// checkZlib compares a stream's bytes, what is left behind it, and whether it is valid. Bytes before an error are
// compared, too, since a wrong checksum would hide others.
func checkZlib(t testing.TB, stream []byte) {
	t.Helper()
	got, left, err := inflated(stream)
	want, wantLeft, wantErr := standard(stream)
	n := min(len(got), len(want))
	switch {
	case !bytes.Equal(got[:n], want[:n]):
		t.Errorf("%d bytes: got other bytes than compress/zlib", len(stream))
	case (err == nil) != (wantErr == nil):
		t.Errorf("%d bytes: got error %v, want that of compress/zlib: %v", len(stream), err, wantErr)
	case err == nil && (!bytes.Equal(got, want) || left != wantLeft):
		t.Errorf("%d bytes: got %d bytes, %d left, want those of compress/zlib: %d, %d left", len(stream), len(got), left,
			len(want), wantLeft)
	}
}

// streams compresses data of several kinds at all levels.
func streams(tb testing.TB) map[string][]byte {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	random, few, far := make([]byte, 100_000), make([]byte, 300_000), make([]byte, 200_000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for i := range few {
		few[i] = byte(rng.ExpFloat64() * 8)
	}
	for i := range far {
		far[i] = random[i%32_768]
		if rng.IntN(500) == 0 {
			far[i]++
		}
	}
	out := map[string][]byte{}
	for name, data := range map[string][]byte{
		"empty": nil, "one": {7}, "zeros": make([]byte, 500_000), "random": random, "few": few, "far": far,
		"text": bytes.Repeat([]byte("the quick brown fox "), 9_000), "threes": bytes.Repeat([]byte{1, 2, 3}, 90_000),
	} {
		for _, level := range []int{zlib.HuffmanOnly, zlib.NoCompression, zlib.BestSpeed, zlib.BestCompression} {
			var b bytes.Buffer
			w, err := zlib.NewWriterLevel(&b, level)
			if err != nil {
				tb.Fatal(err)
			}
			w.Write(data)
			w.Close()
			out[fmt.Sprintf("%s, level %d", name, level)] = b.Bytes()
		}
	}
	return out
}

func TestZlib(t *testing.T) {
	for name, stream := range streams(t) {
		t.Run(name, func(t *testing.T) {
			checkZlib(t, stream)
			checkZlib(t, append(bytes.Clone(stream), 1, 2, 3))
			for n := range min(len(stream), 100) {
				checkZlib(t, stream[:n])
				if len(stream) < 5_000 {
					checkZlib(t, stream[:len(stream)-1-n])
				}
			}
		})
	}
}

// TestDamagedZlib: of streams with wrong bits those are valid that compress/zlib takes for valid.
func TestDamagedZlib(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, stream := range streams(t) {
		if len(stream) > 5_000 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for range 100 {
				wrong := bytes.Clone(stream)
				wrong[rng.IntN(len(wrong))] ^= 1 << rng.IntN(8)
				checkZlib(t, wrong)
			}
		})
	}
}

func FuzzZlib(f *testing.F) {
	x := fuzzing.New(f)
	for _, stream := range streams(f) {
		if len(stream) < 3_000 {
			x.Add(stream)
		}
	}
	x.Run(func(t testing.TB, stream []byte) { checkZlib(t, stream) })
}
