package data

import "encoding/binary"

const lzwMaxWidth = 12

// An lzwEntry is a string of the table. Up to seven bytes lie in the entry itself, the first one lowest, with their
// number in the highest byte. A longer string has lzwLong set, its length from bit 40 on, and below that its place in
// what was decompressed. So the table is 32 KiB, which the fastest cache holds.
type lzwEntry uint64

const (
	lzwLong    lzwEntry = 1 << 63
	lzwInside           = 7  // bytes of a string that lies in its entry
	lzwSizeAt           = 56 // the bit where the length of such a string begins
	lzwLongAt           = 40 // that of a longer string
	lzwPlace   lzwEntry = 1<<lzwLongAt - 1
	lzwLiteral lzwEntry = 1 << lzwSizeAt
)

func (e lzwEntry) size() uint {
	if e >= lzwLong {
		return uint(e &^ lzwLong >> lzwLongAt)
	}
	return uint(e >> lzwSizeAt)
}

// grown is the string before with one more byte, first, which is written next, at place o.
func (e lzwEntry) grown(first byte, o uint) lzwEntry {
	if size := e >> lzwSizeAt; size < lzwInside {
		return e + lzwLiteral | lzwEntry(first)<<(8*size)
	}
	size := e.size()
	return lzwLong | lzwEntry(size+1)<<lzwLongAt | lzwEntry(o-size)
}

// first is the first byte of the string.
func (e lzwEntry) first(dst []byte) byte {
	if e >= lzwLong {
		return dst[e&lzwPlace]
	}
	return byte(e)
}

// write writes the string at place o, and is false if there is not enough room. It may write zeros behind it, where the
// next string comes.
func (e lzwEntry) write(dst []byte, o uint) bool {
	size := e.size()
	if o > uint(len(dst)) || size > uint(len(dst))-o {
		return false
	}
	if e < lzwLong {
		for i := range size {
			dst[o+i] = byte(e >> (8 * i))
		}
		return true
	}
	from := uint(e & lzwPlace) // the last byte of the source may be the first one of the copy
	copy(dst[o:o+size], dst[from:min(from+size, o)])
	dst[o+size-1] = dst[from+size-1]
	return true
}

// An lzwTable decompresses one strip after the other.
type lzwTable [1 << lzwMaxWidth]lzwEntry

// unpack decompresses LZW of TIFF (highest bits first, codes that grow one code early) or of GIF (lowest bits first)
// into dst. It is false unless src gives just as many bytes and then ends: callers leave such files to the formats' Go
// packages, which are slower. bits: of a literal.
func (table *lzwTable) unpack(dst, src []byte, bits uint, tiff bool) bool {
	clear := uint32(1) << bits
	for i := range clear {
		table[i] = lzwLiteral | lzwEntry(i)
	}
	early := uint32(0)
	if tiff {
		early = 1
	}
	next, width := clear+2, bits+1
	var at, o uint      // bits that were read, bytes that were written
	var before lzwEntry // the string before, 0 behind a clear code
	for at+width <= 8*uint(len(src)) {
		code := lzwCode(src, at, width, tiff)
		at += width
		if code == clear {
			next, width, before = clear+2, bits+1, 0
			continue
		}
		if code == clear+1 {
			return o == uint(len(dst)) && (at+7)/8 == uint(len(src))
		}
		entry := table[code%(1<<lzwMaxWidth)]
		if code >= next { // only the string that this code adds: the one before and its own first byte
			if code > next || before == 0 {
				return false
			}
			entry = before.grown(before.first(dst), o)
		}
		if before != 0 && next < 1<<lzwMaxWidth {
			table[next] = before.grown(entry.first(dst), o)
			next++
		}
		if entry < lzwLong && o < uint(len(dst)) && len(dst[o:]) >= 8 {
			binary.LittleEndian.PutUint64(dst[o:], uint64(entry)) // too much, but what comes next is written later
		} else if !entry.write(dst, o) {
			return false
		}
		o += entry.size()
		before = entry
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
		return uint32(binary.BigEndian.Uint64(b) << (at % 8) >> ((64 - width) % 64))
	}
	return uint32(binary.LittleEndian.Uint64(b)>>(at%8)) & (1<<(width%32) - 1)
}
