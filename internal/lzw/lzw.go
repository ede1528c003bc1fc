// Package lzw decompresses the LZW of TIFF and GIF files, several times as fast as Go's packages.
package lzw

import (
	"encoding/binary"
	"math/bits"
)

const maxWidth = 12

// An entry is a string of the table. Up to seven bytes are in the entry itself, the first one lowest, with their
// number in the highest byte. A longer string has long set, its length starting at bit 40, and below that its
// offset in the output. So the table is 32 KiB, which fits the L1 cache.
type entry uint64

const (
	long    entry = 1 << 63
	inside        = 7  // most bytes of a string that is stored in its entry
	sizeAt        = 56 // bit position of the length of such a string
	longAt        = 40 // the same for a longer string
	place   entry = 1<<longAt - 1
	literal entry = 1 << sizeAt
)

func (e entry) size() uint {
	if e >= long {
		return uint(e &^ long >> longAt)
	}
	return uint(e >> sizeAt)
}

// grown returns the string with one more byte, first, which is written next, at offset o.
func (e entry) grown(first byte, o uint) entry {
	if size := e >> sizeAt; size < inside {
		return e + literal | entry(first)<<(8*size)
	}
	size := e.size()
	return long | entry(size+1)<<longAt | entry(o-size)
}

// first is the first byte of the string.
func (e entry) first(dst []byte) byte {
	if e >= long {
		return dst[e&place]
	}
	return byte(e)
}

// write writes the string at offset o; false if there is not enough room.
func (e entry) write(dst []byte, o uint) bool {
	size := e.size()
	if o > uint(len(dst)) || size > uint(len(dst))-o {
		return false
	}
	if e < long {
		for i := range size {
			dst[o+i] = byte(e >> (8 * i))
		}
		return true
	}
	from := uint(e & place) // the last byte of the source may be the first one of the copy
	copy(dst[o:o+size], dst[from:min(from+size, o)])
	dst[o+size-1] = dst[from+size-1]
	return true
}

// A Table decompresses strips one after another. Entries of unassigned codes are 0.
type Table struct {
	entries [1 << maxWidth]entry
	tiff    bool   // high bits first, and codes widen one code early; GIF differs in both
	clear   uint32 // the code that empties the table; the next one ends
	next    uint32 // the code of the next string
	grows   uint32 // the value of next at which codes get longer
	width   uint   // bits of a code
	at, o   uint   // bits read, bytes written
	before  entry  // the previous string, 0 after a clear code
}

// Unpack decompresses TIFF or GIF LZW into dst. It returns false unless src decompresses to exactly len(dst) bytes
// and then ends: callers leave other files to the formats' Go packages, which are slower. depth: bits of a literal, at
// least 2.
func (t *Table) Unpack(dst, src []byte, depth uint, tiff bool) bool {
	t.tiff, t.at, t.o = tiff, 0, 0
	t.empty(1 << depth)
	for i := range t.clear {
		t.entries[i] = literal | entry(i)
	}
	for {
		if t.before-1 < inside<<sizeAt-1 && t.next+1 < t.grows { // it would stop at once
			t.unpackShort(dst, src)
		}
		if t.at+t.width > 8*uint(len(src)) {
			return false
		}
		code := codeAt(src, t.at, t.width, tiff)
		t.at += t.width
		if code == t.clear {
			t.empty(code)
			continue
		}
		if code == t.clear+1 {
			return t.o == uint(len(dst)) && (t.at+7)/8 == uint(len(src))
		}
		e := t.entries[code%(1<<maxWidth)]
		if code >= t.next { // only the string that this code adds: the previous one and its own first byte
			if code > t.next || t.before == 0 {
				return false
			}
			e = t.before.grown(t.before.first(dst), t.o)
		}
		if t.before != 0 && t.next < 1<<maxWidth {
			t.entries[t.next] = t.before.grown(e.first(dst), t.o)
			t.next++
			if t.next == t.grows && t.width < maxWidth {
				t.widen(t.width + 1)
			}
		}
		if e < long && t.o < uint(len(dst)) && len(dst[t.o:]) >= 8 {
			binary.LittleEndian.PutUint64(dst[t.o:], uint64(e)) // the excess is overwritten by what comes next
		} else if !e.write(dst, t.o) {
			return false
		}
		t.before = e
		t.o += e.size()
	}
}

// empty drops all strings except the literals, which are the codes below clear.
func (t *Table) empty(clear uint32) {
	for code := clear; code < t.next; code++ {
		t.entries[code] = 0
	}
	t.clear, t.next, t.before = clear, clear+2, 0
	t.widen(uint(bits.Len32(clear)))
}

// widen sets the code width in bits.
func (t *Table) widen(width uint) {
	t.width, t.grows = width, 1<<width
	if t.tiff {
		t.grows--
	}
}

// unpackShort handles strings that are stored in their entries, as nearly all are, up to the next code that needs
// anything else. It leaves that code to Unpack, whose loop has more live values than the CPU has registers.
func (t *Table) unpackShort(dst, src []byte) {
	at, next, before, to := t.at, t.next, t.before, dst[t.o:]
	entries, tiff, width, last := &t.entries, t.tiff, t.width, t.grows-1
	for next < last && len(to) >= 8 && at/8+8 <= uint(len(src)) {
		code := binary.LittleEndian.Uint64(src[at/8:])
		if tiff {
			code = bits.ReverseBytes64(code) << (at % 8) >> ((64 - width) % 64)
		} else {
			code = code >> (at % 8) & (1<<(width%64) - 1)
		}
		e := entries[code%(1<<maxWidth)]
		if e-1 >= long-1 || before >= inside<<sizeAt { // none, or long ones
			break
		}
		entries[next%(1<<maxWidth)] = before + literal | e&0xff<<(8*(before>>sizeAt)%64)
		next++
		at += width
		binary.LittleEndian.PutUint64(to, uint64(e)) // the excess is overwritten by what comes next
		to = to[e>>sizeAt%8:]
		before = e
	}
	t.at, t.next, t.before, t.o = at, next, before, uint(len(dst)-len(to))
}

// codeAt returns the code of width bits at bit offset at.
func codeAt(src []byte, at, width uint, tiff bool) uint32 {
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
