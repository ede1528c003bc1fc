package quant

import (
	"encoding/binary"

	"assay/internal/workers"
)

// awqOrder: bits 4t .. 4t+3 of an AWQ word hold value awqOrder[t] of its eight.
var awqOrder = [8]int{0, 2, 4, 6, 1, 3, 5, 7}

// tile is the number of rows per worker task.
const tile = 64

// alongIn unpacks words [in bits/32, out] int32, GPTQ's layout, into q [out, in]: a word holds consecutive columns of
// a row, lowest bits first.
func alongIn(words []byte, out, in, bits int) []byte {
	q := make([]byte, out*in)
	each := 32 / bits
	mask := uint32(1)<<bits - 1
	workers.Do((out+tile-1)/tile, func(part int) {
		for i := range in / each {
			for n := part * tile; n < min(out, (part+1)*tile); n++ {
				w := binary.LittleEndian.Uint32(words[4*(i*out+n):])
				to := q[n*in+i*each : n*in+(i+1)*each]
				for t := range to {
					to[t] = byte(w >> (t * bits) & mask)
				}
			}
		}
	})
	return q
}

// alongRow unpacks words [rows, columns bits/32] int32 into [rows, columns]: consecutive values, lowest bits first.
func alongRow(words []byte, rows, columns, bits int) []byte {
	q := make([]byte, rows*columns)
	each := 32 / bits
	perRow := (columns + each - 1) / each
	mask := uint32(1)<<bits - 1
	workers.Do(rows, func(r int) {
		for i := range columns {
			w := binary.LittleEndian.Uint32(words[4*(r*perRow+i/each):])
			q[r*columns+i] = byte(w >> (i % each * bits) & mask)
		}
	})
	return q
}

// awqRows unpacks words [rows, columns/8] int32 of AWQ into [rows, columns].
func awqRows(words []byte, rows, columns int) []byte {
	q := make([]byte, rows*columns)
	workers.Do(rows, func(r int) {
		for i := range columns / 8 {
			w := binary.LittleEndian.Uint32(words[4*(r*(columns/8)+i):])
			to := q[r*columns+8*i : r*columns+8*i+8]
			for t, k := range awqOrder {
				to[k] = byte(w >> (4 * t) & 15)
			}
		}
	})
	return q
}

// transpose converts [columns, rows] to [rows, columns].
func transpose[T byte | float32](x []T, rows, columns int) []T {
	out := make([]T, len(x))
	workers.Do((rows+tile-1)/tile, func(part int) {
		for c := range columns {
			for r := part * tile; r < min(rows, (part+1)*tile); r++ {
				out[r*columns+c] = x[c*rows+r]
			}
		}
	})
	return out
}

// packAlongIn is the inverse of alongIn.
func packAlongIn(q []byte, out, in, bits int) []byte {
	each := 32 / bits
	words := make([]byte, 4*out*(in/each))
	workers.Do((out+tile-1)/tile, func(part int) {
		for i := range in / each {
			for n := part * tile; n < min(out, (part+1)*tile); n++ {
				var w uint32
				for t, v := range q[n*in+i*each : n*in+(i+1)*each] {
					w |= uint32(v) << (t * bits)
				}
				binary.LittleEndian.PutUint32(words[4*(i*out+n):], w)
			}
		}
	})
	return words
}

// packAlongRow is the inverse of alongRow.
func packAlongRow(x []byte, rows, columns, bits int) []byte {
	each := 32 / bits
	perRow := (columns + each - 1) / each
	words := make([]byte, 4*rows*perRow)
	for r := range rows {
		for i, v := range x[r*columns : (r+1)*columns] {
			at := words[4*(r*perRow+i/each):]
			w := binary.LittleEndian.Uint32(at) | uint32(v)<<(i%each*bits)
			binary.LittleEndian.PutUint32(at, w)
		}
	}
	return words
}
