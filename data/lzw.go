package data

import "encoding/binary"

const lzwMaxWidth = 12

// An lzwEntry is a string of the table. It lies in what was decompressed, if it is no literal.
type lzwEntry struct {
	text        uint64 // the first eight bytes, the first one lowest
	start, size uint32
}

// An lzwTable decompresses one strip after the other.
type lzwTable [1 << lzwMaxWidth]lzwEntry

// unpack decompresses LZW of TIFF (highest bits first, codes that grow one code early) or of GIF (lowest bits first)
// into dst. It is false unless src gives just as many bytes and then ends: callers leave such files to the formats' Go
// packages, which are slower. bits: of a literal.
func (table *lzwTable) unpack(dst, src []byte, bits uint, tiff bool) bool {
	clear := uint32(1) << bits
	for i := range clear {
		table[i] = lzwEntry{text: uint64(i), size: 1}
	}
	early := uint32(0)
	if tiff {
		early = 1
	}
	next, width := clear+2, bits+1
	var at, o uint      // bits that were read, bytes that were written
	var before lzwEntry // the string before, empty behind a clear code
	for at+width <= 8*uint(len(src)) {
		code := lzwCode(src, at, width, tiff)
		at += width
		if code == clear {
			next, width, before = clear+2, bits+1, lzwEntry{}
			continue
		}
		if code == clear+1 {
			return o == uint(len(dst)) && (at+7)/8 == uint(len(src))
		}
		if before.size > 0 && next < 1<<lzwMaxWidth { // the string before and the first byte of this one
			first := table[code].text & 255
			if code == next {
				first = before.text & 255
			}
			table[next] = lzwEntry{before.text | first<<(8*before.size), uint32(o) - before.size, before.size + 1}
			next++
		}
		if code >= next {
			return false
		}
		before = table[code]
		switch left := uint(len(dst)) - o; {
		case before.size <= 8 && left >= 8: // more than is wanted, but what comes next is written later
			binary.LittleEndian.PutUint64(dst[o:], before.text)
		case uint(before.size) > left:
			return false
		case before.size == 1:
			dst[o] = byte(before.text)
		default: // the last byte of the source may be the first one of the copy
			from, n := uint(before.start), uint(before.size)
			copy(dst[o:o+n], dst[from:min(from+n, o)])
			dst[o+n-1] = dst[from+n-1]
		}
		o += uint(before.size)
		if next == 1<<width-early && width < lzwMaxWidth {
			width++
		}
	}
	return false
}

// lzwCode returns the code of width bits at place at, counted in bits.
func lzwCode(src []byte, at, width uint, tiff bool) uint32 {
	b := src[at/8:]
	if len(b) < 8 {
		var end [8]byte
		copy(end[:], b)
		b = end[:]
	}
	if tiff {
		return uint32(binary.BigEndian.Uint64(b) << (at % 8) >> (64 - width))
	}
	return uint32(binary.LittleEndian.Uint64(b)>>(at%8)) & (1<<width - 1)
}
