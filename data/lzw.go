package data

import "encoding/binary"

const lzwMaxWidth = 12

// unLZW decompresses LZW of TIFF (highest bits first, codes that grow one code early) or of GIF (lowest bits first)
// into dst. It is false unless src gives just as many bytes and then ends: callers leave such files to the formats' Go
// packages, which are slower. bits: of a literal.
//
// A string of the table is that of the code before and one more byte, which lies right behind it in dst: each entry is
// a place and a length there.
func unLZW(dst, src []byte, bits uint, tiff bool) bool {
	var start [1 << lzwMaxWidth]uint32
	var size [1 << lzwMaxWidth]uint16
	clear := uint32(1) << bits
	next, width, early := clear+2, bits+1, uint32(0)
	if tiff {
		early = 1
	}
	var held uint64   // bits that were read
	var n uint        // how many they are
	o, before := 0, 0 // where to write, and the length of the string before, 0 behind a clear code
	for {
		for n < width {
			switch {
			case len(src) >= 4 && tiff:
				held, n, src = held<<32|uint64(binary.BigEndian.Uint32(src)), n+32, src[4:]
			case len(src) >= 4:
				held, n, src = held|uint64(binary.LittleEndian.Uint32(src))<<n, n+32, src[4:]
			case len(src) > 0 && tiff:
				held, n, src = held<<8|uint64(src[0]), n+8, src[1:]
			case len(src) > 0:
				held, n, src = held|uint64(src[0])<<n, n+8, src[1:]
			default:
				return false
			}
		}
		n -= width
		code := uint32(held) & (1<<width - 1)
		if tiff {
			code = uint32(held>>n) & (1<<width - 1)
		} else {
			held >>= width
		}
		switch {
		case code == clear:
			next, width, before = clear+2, bits+1, 0
			continue
		case code == clear+1:
			return o == len(dst) && len(src) == 0
		}
		if before > 0 && next < 1<<lzwMaxWidth {
			start[next], size[next] = uint32(o-before), uint16(before+1)
			next++
		}
		if code < clear {
			if o == len(dst) {
				return false
			}
			dst[o], before = byte(code), 1
		} else {
			if code >= next || int(size[code]) > len(dst)-o {
				return false
			}
			before = int(size[code])
			repeat(dst, o, int(start[code]), before)
		}
		o += before
		if next == 1<<width-early && width < lzwMaxWidth {
			width++
		}
	}
}

// repeat copies n bytes of b from place from to the later place to. The last byte of the source may be the first one of
// the copy.
func repeat(b []byte, to, from, n int) {
	if n <= 8 && from+n <= to && to+8 <= len(b) { // more than is wanted, but what comes next is written later
		binary.LittleEndian.PutUint64(b[to:], binary.LittleEndian.Uint64(b[from:]))
		return
	}
	copy(b[to:to+n], b[from:min(from+n, to)])
	b[to+n-1] = b[from+n-1]
}
