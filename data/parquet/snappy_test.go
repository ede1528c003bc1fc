package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/snappy"
)

// someSnappy is a block of literals and copies from at most reach bytes back, with all kinds of tags.
func someSnappy(rng *rand.Rand, size, reach int) (packed []byte) {
	var body []byte
	out := 0
	for out < size {
		n := min(1+rng.IntN(3000), size-out)
		if out == 0 || rng.IntN(3) > 0 {
			literal := make([]byte, n)
			for i := range literal {
				literal[i] = byte(rng.Uint32())
			}
			switch n--; {
			case n < 60:
				body = append(body, byte(n<<2))
			case n < 256:
				body = append(body, 60<<2, byte(n))
			default:
				body = append(body, 61<<2, byte(n), byte(n>>8))
			}
			body, out = append(body, literal...), out+len(literal)
			continue
		}
		n, back := min(4+rng.IntN(8), size-out), 1+rng.IntN(min(reach, out))
		switch {
		case n >= 4 && back < 1<<11:
			body = append(body, byte(1|(n-4)<<2|back>>8<<5), byte(back))
		case back < 1<<16:
			body = append(body, byte(2|(n-1)<<2), byte(back), byte(back>>8))
		default:
			body = binary.LittleEndian.AppendUint32(append(body, byte(3|(n-1)<<2)), uint32(back))
		}
		out += n
	}
	return append(binary.AppendUvarint(nil, uint64(size)), body...)
}

// TestSnappyFromAnyPlace: reading a block from any position agrees with the library, also if copies reach far back;
// marks are where no copy crosses.
func TestSnappyFromAnyPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, reach := range []int{1, 100, 3000, 70_000, 1 << 20} {
		t.Run(fmt.Sprintf("%d bytes", reach), func(t *testing.T) {
			packed := someSnappy(rng, 600_000, reach)
			want, err := snappy.Decode(nil, packed)
			if err != nil {
				t.Fatal(err)
			}
			file := io.NewSectionReader(bytes.NewReader(packed), 0, int64(len(packed)))
			marks, err := markSnappy(file, int64(len(want)))
			if err != nil {
				t.Fatal(err)
			}
			if n := len(marks); reach == 1 && n < 9 || reach == 1<<20 && n > 3 {
				t.Errorf("reaching back %d bytes: got %d marks, want more the shorter it is", reach, n)
			}
			r := &snappyReader{packed: file, marks: marks}
			for range 200 {
				r.at = rng.Int64N(int64(len(want)))
				got := make([]byte, min(int64(1+rng.IntN(9000)), int64(len(want))-r.at))
				at := r.at
				if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want[at:at+int64(len(got))]) {
					t.Fatalf("reaching back %d bytes: got %d bytes at %d: %v, want those of the library", reach, len(got), at, err)
				}
			}
			for range 100 { // damaged blocks are refused whenever the library refuses them
				k, bit := rng.IntN(len(packed)), byte(1)<<rng.IntN(8)
				packed[k] ^= bit
				_, err := markSnappy(file, int64(len(want)))
				all, wrong := snappy.Decode(nil, packed)
				if wrong == nil && len(all) > len(want) {
					wrong = errSnappy
				}
				if (err == nil) != (wrong == nil) {
					t.Errorf("bit %d of byte %d: got error %v, want the library's %v", bit, k, err, wrong)
				}
				packed[k] ^= bit
			}
		})
	}
}
