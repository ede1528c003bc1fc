package data

import (
	"bytes"
	gifs "compress/lzw"
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestLZW compares with what Go's package compresses for GIF; TIFF's codes are those of Pillow's files (TestHeaders).
func TestUnLZW(t *testing.T) {
	var table lzwTable
	rng := rand.New(rand.NewPCG(1, 2))
	for _, bits := range []int{2, 5, 8} {
		for _, colours := range []int{1, 2, 1 << bits} {
			for _, n := range []int{1, 2, 7, 8, 9, 100, 5000, 100_000} {
				t.Run(fmt.Sprintf("%d bits, %d colours, %d bytes", bits, colours, n), func(t *testing.T) {
					want := make([]byte, n)
					for i := range want {
						want[i] = byte(rng.IntN(min(colours, 1<<bits)))
					}
					var packed bytes.Buffer
					w := gifs.NewWriter(&packed, gifs.LSB, bits)
					if _, err := w.Write(want); err != nil {
						t.Fatal(err)
					}
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					got := make([]byte, n)
					if !table.unpack(got, packed.Bytes(), uint(bits), false) || !bytes.Equal(got, want) {
						t.Errorf("got other bytes than were compressed, want the same")
					}
					for _, length := range []int{n - 1, n + 1} {
						if table.unpack(make([]byte, length), packed.Bytes(), uint(bits), false) {
							t.Errorf("into %d bytes: got true, want false", length)
						}
					}
					if table.unpack(got, packed.Bytes()[:packed.Len()-1], uint(bits), false) ||
						table.unpack(got, append(packed.Bytes(), 0), uint(bits), false) {
						t.Errorf("of a byte less and more: got true, want false")
					}
				})
			}
		}
	}
}
