package optimizer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
)

// Digest is that of all parameters.
func (o *Optimizer) Digest() (map[string]string, error) {
	h, b := sha256.New(), make([]byte, 0, 4<<12)
	for _, p := range o.Params {
		for part := range slices.Chunk(p.Floats(), 1<<12) {
			b = b[:0]
			for _, v := range part {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
			h.Write(b)
		}
	}
	return map[string]string{"parameters": hex.EncodeToString(h.Sum(nil))[:32]}, nil
}
