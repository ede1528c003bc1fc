package data

import (
	"encoding/binary"
	"math/bits"
)

const lzwMaxWidth = 12

// An lzwEntry is a string of the table. Up to seven bytes are in the entry itself, the first one lowest, with their
// number in the highest byte. A longer string has lzwLong set, its length starting at bit 40, and below that its
// offset in the output. So the table is 32 KiB, which fits the L1 cache.
type lzwEntry uint64

const (
	lzwLong    lzwEntry = 1 << 63
	lzwInside           = 7  // most bytes of a string that is stored in its entry
	lzwSizeAt           = 56 // bit position of the length of such a string
	lzwLongAt           = 40 // the same for a longer string
	lzwPlace   lzwEntry = 1<<lzwLongAt - 1
	lzwLiteral lzwEntry = 1 << lzwSizeAt
)

func (e lzwEntry) size() uint {
	if e >= lzwLong {
		return uint(e &^ lzwLong >> lzwLongAt)
	}
	return uint(e >> lzwSizeAt)
}

// grown returns the string with one more byte, first, which is written next, at offset o.
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

// write writes the string at offset o; false if there is not enough room.
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

// An lzwTable decompresses strips one after another. Entries of unassigned codes are 0.
type lzwTable struct {
	entries [1 << lzwMaxWidth]lzwEntry
	tiff    bool     // high bits first, and codes widen one code early; GIF differs in both
	clear   uint32   // the code that empties the table; the next one ends
	next    uint32   // the code of the next string
	grows   uint32   // the value of next at which codes get longer
	width   uint     // bits of a code
	at, o   uint     // bits read, bytes written
	before  lzwEntry // the previous string, 0 after a clear code
}

// unpack decompresses TIFF or GIF LZW into dst. It returns false unless src decompresses to exactly len(dst) bytes
// and then ends: callers leave other files to the formats' Go packages, which are slower. literal: bits of a literal,
// at least 2.
func (t *lzwTable) unpack(dst, src []byte, literal uint, tiff bool) bool {
	t.tiff, t.at, t.o = tiff, 0, 0
	t.empty(1 << literal)
	for i := range t.clear {
		t.entries[i] = lzwLiteral | lzwEntry(i)
	}
	for {
		if t.before-1 < lzwInside<<lzwSizeAt-1 && t.next+1 < t.grows { // it would stop at once
			t.unpackShort(dst, src)
		}
		if t.at+t.width > 8*uint(len(src)) {
			return false
		}
		code := lzwCode(src, t.at, t.width, tiff)
		t.at += t.width
		if code == t.clear {
			t.empty(code)
			continue
		}
		if code == t.clear+1 {
			return t.o == uint(len(dst)) && (t.at+7)/8 == uint(len(src))
		}
		entry := t.entries[code%(1<<lzwMaxWidth)]
		if code >= t.next { // only the string that this code adds: the previous one and its own first byte
			if code > t.next || t.before == 0 {
				return false
			}
			entry = t.before.grown(t.before.first(dst), t.o)
		}
		if t.before != 0 && t.next < 1<<lzwMaxWidth {
			t.entries[t.next] = t.before.grown(entry.first(dst), t.o)
			t.next++
			if t.next == t.grows && t.width < lzwMaxWidth {
				t.widen(t.width + 1)
			}
		}
		if entry < lzwLong && t.o < uint(len(dst)) && len(dst[t.o:]) >= 8 {
			binary.LittleEndian.PutUint64(dst[t.o:], uint64(entry)) // the excess is overwritten by what comes next
		} else if !entry.write(dst, t.o) {
			return false
		}
		t.before = entry
		t.o += entry.size()
	}
}

// empty drops all strings except the literals, which are the codes below clear.
func (t *lzwTable) empty(clear uint32) {
	for code := clear; code < t.next; code++ {
		t.entries[code] = 0
	}
	t.clear, t.next, t.before = clear, clear+2, 0
	t.widen(uint(bits.Len32(clear)))
}

// widen sets the code width in bits.
func (t *lzwTable) widen(width uint) {
	t.width, t.grows = width, 1<<width
	if t.tiff {
		t.grows--
	}
}

// unpackShort handles strings that are stored in their entries, as nearly all are, up to the next code that needs
// anything else. It leaves that code to unpack, whose loop has more live values than the CPU has registers.
func (t *lzwTable) unpackShort(dst, src []byte) {
	at, next, before, to := t.at, t.next, t.before, dst[t.o:]
	entries, tiff, width, last := &t.entries, t.tiff, t.width, t.grows-1
	for next < last && len(to) >= 8 && at/8+8 <= uint(len(src)) {
		code := binary.LittleEndian.Uint64(src[at/8:])
		if tiff {
			code = bits.ReverseBytes64(code) << (at % 8) >> ((64 - width) % 64)
		} else {
			code = code >> (at % 8) & (1<<(width%64) - 1)
		}
		entry := entries[code%(1<<lzwMaxWidth)]
		if entry-1 >= lzwLong-1 || before >= lzwInside<<lzwSizeAt { // none, or long ones
			break
		}
		entries[next%(1<<lzwMaxWidth)] = before + lzwLiteral | entry&0xff<<(8*(before>>lzwSizeAt)%64)
		next++
		at += width
		binary.LittleEndian.PutUint64(to, uint64(entry)) // the excess is overwritten by what comes next
		to = to[entry>>lzwSizeAt%8:]
		before = entry
	}
	t.at, t.next, t.before, t.o = at, next, before, uint(len(dst)-len(to))
}

// lzwCode returns the code of width bits at bit offset at.
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
