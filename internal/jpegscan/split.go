package jpegscan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// Split rewrites a file of several components as one greyscale file per component; docs/decisions/jpeg.md explains
// why. Scans of one component are copied. Interleaved scans are taken apart: this changes the order of the blocks, so
// the DC coefficients, which are stored as differences, are re-encoded, without restarts.
func (f *Frame) Split(ctx context.Context) ([][]byte, error) {
	out := make([][]byte, len(f.Components))
	for i, c := range f.Components {
		w, h := f.size(c)
		out[i] = append(out[i], 0xff, 0xd8, 0xff, f.kind, 0, 11, 8, byte(h>>8), byte(h), byte(w>>8), byte(w))
		out[i] = append(out[i], 1, c.id, 0x11, c.quantizer)
	}
	for _, s := range f.steps {
		for i := range out {
			out[i] = append(out[i], s.quantizers...)
		}
		if len(s.components) == 1 {
			k := s.components[0]
			out[k] = append(s.header(out[k], f, 0, nil, s.interval), s.compressed...)
		} else if len(s.components) > 1 {
			apart, err := s.apart(ctx, f)
			if err != nil {
				return nil, err
			}
			for i, k := range s.components {
				out[k] = append(s.header(out[k], f, i, sizesTable, 0), apart[i]...)
			}
		}
	}
	for i := range out {
		out[i] = append(out[i], 0xff, markEnd)
	}
	return out, nil
}

// sizesTable is a Huffman table for the sizes of DC differences: the code of a size is the size itself in sizeBits
// bits.
var sizesTable = func() []byte {
	t := make([]byte, 16, 16+maxSize+1)
	t[sizeBits-1] = maxSize + 1
	for i := range maxSize + 1 {
		t = append(t, byte(i))
	}
	return t
}()

const sizeBits, maxSize = 5, 16

// header appends the segments before a scan of one component, the i-th of s, with dc instead of its DC table unless
// nil.
func (s step) header(b []byte, f *Frame, i int, dc []byte, interval int) []byte {
	for class, number := range []byte{s.selectors[i] >> 4, s.selectors[i] & 15} {
		id := byte(class)<<4 | number
		t := s.tables[id]
		if class == 0 && dc != nil {
			t = dc
		}
		if t != nil {
			b = append(binary.BigEndian.AppendUint16(append(b, 0xff, markHuffman), uint16(3+len(t))), id)
			b = append(b, t...)
		}
	}
	b = append(b, 0xff, markInterval, 0, 4, byte(interval>>8), byte(interval))
	b = append(b, 0xff, markScan, 0, 8, 1, f.Components[s.components[i]].id, s.selectors[i])
	return append(b, s.bounds[:]...)
}

// A block is a block of a scan: its DC coefficient, or one bit of it, and the range of the codes of its other
// coefficients.
type block struct {
	dc       int32
	from, to int
}

// apart returns the blocks of each component of an interleaved scan, in the order of a non-interleaved scan.
func (s step) apart(ctx context.Context, f *Frame) ([][]byte, error) {
	maxH, maxV := f.MaxSampling()
	across, down := (f.Width+8*maxH-1)/(8*maxH), (f.Height+8*maxV-1)/(8*maxV)
	refine := f.kind == markProgressive && s.bounds[2]>>4 != 0
	r := bitReader{b: s.compressed}
	blocks := make([][]block, len(s.components))
	rest := make([]bitString, len(s.components)) // the codes of the other coefficients
	dc := make([]int32, len(s.components))
	columns := make([]int, len(s.components))
	for i, k := range s.components {
		w, h := f.size(f.Components[k])
		columns[i] = (w + 7) / 8
		blocks[i] = make([]block, columns[i]*((h+7)/8))
	}
	for mcu := range across * down {
		if s.interval > 0 && mcu > 0 && mcu%s.interval == 0 {
			if !r.restart() {
				return nil, errors.New("no restart marker where one is due")
			}
			clear(dc)
		}
		if mcu%across == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for i, k := range s.components {
			c := f.Components[k]
			for j := range int(c.H) * int(c.V) {
				var b block
				if refine {
					b.dc = int32(r.take(1))
				} else {
					dc[i] += r.signed(int(r.symbol(s.tables[s.selectors[i]>>4], nil)))
					b.dc = dc[i]
				}
				if b.from = rest[i].n; f.kind != markProgressive {
					r.copyBlock(s.tables[0x10|s.selectors[i]&15], &rest[i])
				}
				b.to = rest[i].n
				x, y := mcu%across*int(c.H)+j%int(c.H), mcu/across*int(c.V)+j/int(c.H)
				if at := y*columns[i] + x; x < columns[i] && at < len(blocks[i]) {
					blocks[i][at] = b
				}
			}
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	out := make([][]byte, len(blocks))
	for i := range out {
		out[i] = writeBlocks(blocks[i], &rest[i], refine)
	}
	return out, nil
}

// writeBlocks writes the blocks of a scan of one component.
func writeBlocks(blocks []block, rest *bitString, refine bool) []byte {
	var out bitString
	before := int32(0)
	for _, b := range blocks {
		if refine {
			out.put(uint32(b.dc), 1)
			continue
		}
		d := b.dc - before
		before = b.dc
		n := bits.Len32(uint32(max(d, -d)))
		if d < 0 {
			d += 1<<n - 1
		}
		out.put(uint32(n), sizeBits)
		out.put(uint32(d), n)
		for at := b.from; at < b.to; at += 16 {
			n := min(16, b.to-at)
			out.put(rest.get(at, n), n)
		}
	}
	out.put(1<<7-1, -out.n&7)
	return bytes.ReplaceAll(out.b, []byte{0xff}, []byte{0xff, 0})
}

// bitReader reads a scan bit by bit. After an error all bits are zero.
type bitReader struct {
	b    []byte
	left int // unread bits of b[0], less than 8
	err  error
}

func (r *bitReader) bit() uint32 {
	if r.left == 0 {
		if len(r.b) > 0 && r.err == nil && r.b[0] != 0xff {
			r.left = 8
		} else if len(r.b) > 1 && r.err == nil && r.b[1] == 0 {
			r.left = 8
		} else {
			r.err = io.ErrUnexpectedEOF
			return 0
		}
	}
	r.left--
	v := uint32(r.b[0]) >> r.left & 1
	if r.left == 0 {
		if r.b[0] == 0xff {
			r.b = r.b[1:]
		}
		r.b = r.b[1:]
	}
	return v
}

func (r *bitReader) take(n int) (v uint32) {
	for range n {
		v = v<<1 | r.bit()
	}
	return v
}

// signed reads an n-bit number in JPEG's encoding: numbers that start with 0 are negative.
func (r *bitReader) signed(n int) int32 {
	v := int32(r.take(n))
	if n > 0 && v>>(n-1) == 0 {
		v -= 1<<n - 1
	}
	return v
}

// symbol reads a code of the table, and appends it to out unless out is nil.
func (r *bitReader) symbol(table []byte, out *bitString) byte {
	if len(table) < 16 {
		r.err = errors.New("missing Huffman table")
		return 0
	}
	code, first, index := 0, 0, 16
	for n := 1; n <= 16; n++ {
		code |= int(r.bit())
		if here := int(table[n-1]); code-first < here {
			if out != nil {
				out.put(uint32(code), n)
			}
			return table[index+code-first]
		} else {
			index, first = index+here, (first+here)<<1
		}
		code <<= 1
	}
	if r.err == nil {
		r.err = errors.New("unknown Huffman code")
	}
	return 0
}

// copyBlock reads the codes of all coefficients but the first.
func (r *bitReader) copyBlock(table []byte, out *bitString) {
	for k := 1; k < 64 && r.err == nil; k++ {
		symbol := r.symbol(table, out)
		run, n := int(symbol>>4), int(symbol&15)
		if n == 0 && run < 15 {
			return
		}
		k += run
		out.put(r.take(n), n)
	}
}

// restart skips the remaining bits of a byte and a restart marker; false if there is none.
func (r *bitReader) restart() bool {
	if r.left > 0 {
		if r.b[0] == 0xff {
			r.b = r.b[1:]
		}
		r.b, r.left = r.b[1:], 0
	}
	if len(r.b) < 2 || r.b[0] != 0xff || r.b[1]&^7 != markRestart {
		return false
	}
	r.b = r.b[2:]
	return true
}

// A bitString is n bits, the first in the highest bit of the first byte.
type bitString struct {
	b []byte
	n int
}

// put appends the n lowest bits of v.
func (s *bitString) put(v uint32, n int) {
	for n--; n >= 0; n-- {
		if s.n&7 == 0 {
			s.b = append(s.b, 0)
		}
		s.b[s.n>>3] |= byte(v>>n&1) << (7 - s.n&7)
		s.n++
	}
}

func (s *bitString) get(at, n int) (v uint32) {
	for i := at; i < at+n; i++ {
		v = v<<1 | uint32(s.b[i>>3]>>(7-i&7)&1)
	}
	return v
}
