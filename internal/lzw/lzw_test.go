package lzw

import (
	"bytes"
	gifs "compress/lzw"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	tiffs "golang.org/x/image/tiff/lzw"
)

// TestUnpack decompresses data compressed by Go's package for GIF; TIFF's variant is covered by Pillow's files
// (TestHeaders of package data).
func TestUnpack(t *testing.T) {
	var table Table
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
					if !table.Unpack(got, packed.Bytes(), uint(bits), false) || !bytes.Equal(got, want) {
						t.Errorf("got other bytes than were compressed, want the same")
					}
					for _, length := range []int{n - 1, n + 1} {
						if table.Unpack(make([]byte, length), packed.Bytes(), uint(bits), false) {
							t.Errorf("into %d bytes: got true, want false", length)
						}
					}
					if table.Unpack(got, packed.Bytes()[:packed.Len()-1], uint(bits), false) ||
						table.Unpack(got, append(packed.Bytes(), 0), uint(bits), false) {
						t.Errorf("of a byte less and more: got true, want false")
					}
				})
			}
		}
	}
}

// TestClears compares with Go's packages when clear codes are frequent, rare, or absent, in both bit orders. One
// table decodes all.
func TestClears(t *testing.T) {
	var table Table
	rng := rand.New(rand.NewPCG(3, 4))
	for _, tiff := range []bool{true, false} {
		for _, bits := range []uint{8, 2, 5, 8} {
			for _, run := range []int{1, 3, 40} { // longest run of one colour
				for _, every := range []int{1, 2, 300, 3000, 1 << 30} {
					want := make([]byte, 20_000)
					for i := 0; i < len(want); {
						colour := byte(rng.IntN(1 << bits))
						for n := 1 + rng.IntN(run); n > 0 && i < len(want); n-- {
							want[i] = colour
							i++
						}
					}
					name := fmt.Sprintf("TIFF %v, %d bits, runs of %d, cleared after %d codes", tiff, bits, run, every)
					t.Run(name, func(t *testing.T) {
						packed := pack(want, bits, tiff, every)
						var r io.Reader = gifs.NewReader(bytes.NewReader(packed), gifs.LSB, int(bits))
						if tiff {
							r = tiffs.NewReader(bytes.NewReader(packed), tiffs.MSB, int(bits))
						}
						if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, want) {
							t.Fatalf("Go's package gives other bytes or error %v: the test is wrong", err)
						}
						got := make([]byte, len(want))
						if !table.Unpack(got, packed, bits, tiff) || !bytes.Equal(got, want) {
							t.Errorf("got other bytes than were packed, want the same")
						}
					})
				}
			}
		}
	}
}

// pack compresses b, and clears the table after a given number of codes.
func pack(b []byte, bits uint, tiff bool, every int) []byte {
	clear := 1 << bits
	known, codes := map[string]int{}, 0
	width, next := bits+1, clear+2 // as in the decoder, which is one string behind
	var packed []byte
	var buffer, n uint
	put := func(code int) {
		if tiff {
			buffer = buffer<<width | uint(code)
		} else {
			buffer |= uint(code) << n
		}
		for n += width; n >= 8; n -= 8 {
			if tiff {
				packed = append(packed, byte(buffer>>(n-8)))
			} else {
				packed = append(packed, byte(buffer))
				buffer >>= 8
			}
		}
		if codes++; code == clear {
			known, codes, width, next = map[string]int{}, 0, bits+1, clear+2
		} else if codes > 1 && next < 1<<maxWidth {
			next++
		}
		if early := map[bool]int{true: 1}[tiff]; next == 1<<width-early && width < maxWidth {
			width++
		}
	}
	put(clear)
	for len(b) > 0 {
		size := 1
		code := int(b[0])
		for ; size < len(b); size++ {
			longer, ok := known[string(b[:size+1])]
			if !ok {
				break
			}
			code = longer
		}
		if at := clear + 2 + len(known); size < len(b) && at < 1<<maxWidth-1 {
			known[string(b[:size+1])] = at
		}
		put(code)
		b = b[size:]
		if codes >= every && len(b) > 0 {
			put(clear)
		}
	}
	put(clear + 1)
	if n > 0 && tiff {
		packed = append(packed, byte(buffer<<(8-n)))
	} else if n > 0 {
		packed = append(packed, byte(buffer))
	}
	return packed
}
