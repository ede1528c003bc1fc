package inflate

import "math/bits"

// Bits that index a table; longer codes go on in a subtable, behind its first part.
const (
	literalBits = 11
	offsetBits  = 8
	codeBits    = 7 // the longest code of the lengths of codes
	maxBits     = 15
)

// An entry of a table has, from the lowest bit on: five bits for the length of code and extra bits together, three of
// nothing, four for the length of the code, four flags, and 16 bits for the value. That of a subtable has its place as
// value, and the number of bits that index it instead of the length of the code.
const (
	literal    = 1 << 15
	exception  = 1 << 14 // a subtable, the end of a block, or a code that is not valid
	subtable   = 1 << 13
	endOfBlock = 1 << 12
)

// Numbers of codes that are valid; a block says how many it has.
const (
	maxLiterals = 286
	maxOffsets  = 30
)

// The entries of all codes but for lengths of codes.
var (
	literalEntries [288]uint32
	offsetEntries  [32]uint32
	codeEntries    [19]uint32
)

func init() {
	for i := range 256 {
		literalEntries[i] = literal | uint32(i)<<16
	}
	literalEntries[256] = exception | endOfBlock
	base, extra := uint32(3), uint32(0)
	for i := 257; i < maxLiterals-1; i++ { // 8 codes without extra bits, then four of each number of bits
		if i >= 265 {
			extra = uint32(i-261) / 4
		}
		literalEntries[i] = base<<16 | extra
		base += 1 << extra
	}
	literalEntries[maxLiterals-1] = 258 << 16
	literalEntries[286], literalEntries[287] = exception, exception
	base, extra = 1, 0
	for i := range maxOffsets {
		if i >= 4 {
			extra = uint32(i-2) / 2
		}
		offsetEntries[i] = base<<16 | extra
		base += 1 << extra
	}
	offsetEntries[30], offsetEntries[31] = exception, exception
	for i := range codeEntries {
		codeEntries[i] = uint32(i) << 16
	}
}

// build makes the table of the codes with these lengths, whose first part is indexed by so many bits. It reports
// whether there is such a code: one that is complete, or has one bit, or nothing.
func build(table, entries []uint32, lengths []uint8, primary int) bool {
	var count [maxBits + 1]int
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	left, longest, total := 1, 0, 0
	for n := 1; n <= maxBits; n++ {
		left = left*2 - count[n]
		if left < 0 {
			return false
		}
		if count[n] > 0 {
			longest = n
		}
		total += count[n]
	}
	if left > 0 && total > 0 && (total > 1 || longest > 1) {
		return false
	}
	var next [maxBits + 2]int // the first place of each length among the symbols in order
	for n := 1; n <= maxBits; n++ {
		next[n+1] = next[n] + count[n]
	}
	var symbols [288]uint16
	for s, n := range lengths {
		if n > 0 {
			symbols[next[n]] = uint16(s)
			next[n]++
		}
	}
	for i := range table[:1<<primary] {
		table[i] = exception
	}
	code, length, free := 0, 0, 1<<primary
	for _, s := range symbols[:total] {
		n := int(lengths[s])
		code <<= n - length
		length = n
		reverse := int(bits.Reverse16(uint16(code)) >> (16 - n))
		code++
		if n <= primary {
			e := entries[s] + uint32(n)<<8 + uint32(n)
			for i := reverse; i < 1<<primary; i += 1 << n {
				table[i] = e
			}
			count[n]--
			continue
		}
		prefix, rest := reverse&(1<<primary-1), n-primary
		if table[prefix]&subtable == 0 {
			width := rest // as many bits as the codes that begin so need
			for room := 1<<width - count[n]; room > 0 && primary+width < longest; {
				width++
				room = room*2 - count[primary+width]
			}
			table[prefix] = exception | subtable | uint32(free)<<16 | uint32(width)<<8
			free += 1 << width
		}
		count[n]--
		at, width := int(table[prefix]>>16), int(table[prefix]>>8&15)
		e := entries[s] + uint32(rest)<<8 + uint32(rest)
		for i := reverse >> primary; i < 1<<width; i += 1 << rest {
			table[at+i] = e
		}
	}
	return true
}

// fixed makes the tables of a block without codes of its own.
func (r *Reader) fixed() {
	for i := range 288 {
		n := uint8(8)
		switch {
		case i >= 144 && i < 256:
			n = 9
		case i >= 256 && i < 280:
			n = 7
		}
		r.lengths[i] = n
	}
	build(r.literals[:], literalEntries[:], r.lengths[:288], literalBits)
	for i := range 32 {
		r.lengths[i] = 5
	}
	build(r.offsets[:], offsetEntries[:], r.lengths[:32], offsetBits)
}

// codeOrder is the order of the lengths of the codes of lengths.
var codeOrder = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic reads a block's codes.
func (r *Reader) dynamic() error {
	literals, offsets, codes := int(r.take(5))+257, int(r.take(5))+1, int(r.take(4))+4
	if literals > maxLiterals || offsets > maxOffsets {
		return ErrCorrupt
	}
	clear(r.lengths[:])
	for _, i := range codeOrder[:codes] {
		if err := r.refill(); err != nil {
			return err
		}
		r.lengths[i] = uint8(r.take(3))
	}
	if !build(r.codes[:], codeEntries[:], r.lengths[:len(codeEntries)], codeBits) {
		return ErrCorrupt
	}
	clear(r.lengths[:])
	for i := 0; i < literals+offsets; {
		if err := r.refill(); err != nil {
			return err
		}
		e := r.codes[r.bits&(1<<codeBits-1)]
		if e&exception != 0 {
			return ErrCorrupt
		}
		r.take(uint(e & 31))
		value, repeat := uint8(e>>16), 1
		switch value {
		case 16:
			if i == 0 {
				return ErrCorrupt
			}
			value, repeat = r.lengths[i-1], 3+int(r.take(2))
		case 17:
			value, repeat = 0, 3+int(r.take(3))
		case 18:
			value, repeat = 0, 11+int(r.take(7))
		}
		if i+repeat > literals+offsets {
			return ErrCorrupt
		}
		for range repeat {
			r.lengths[i] = value
			i++
		}
	}
	if !build(r.literals[:], literalEntries[:], r.lengths[:literals], literalBits) ||
		!build(r.offsets[:], offsetEntries[:], r.lengths[literals:literals+offsets], offsetBits) {
		return ErrCorrupt
	}
	return nil
}
