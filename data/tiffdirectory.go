package data

import (
	"encoding/binary"
	"math"
	"slices"
)

// A tiffDirectory is the first directory of a TIFF file or of an EXIF block, which has the same format: tag to
// values.
type tiffDirectory map[uint16]tiffEntry

// A tiffEntry is the values of one tag.
type tiffEntry struct {
	order binary.ByteOrder
	kind  uint16
	data  []byte
}

// Value types, and their sizes in bytes.
const (
	tiffBytes     = 1
	tiffShort     = 3
	tiffLong      = 4
	tiffUndefined = 7
)

var tiffSizes = map[uint16]uint64{
	tiffBytes:     1,
	2:             1, // ASCII
	tiffShort:     2,
	tiffLong:      4,
	5:             8, // RATIONAL
	6:             1, // SBYTE
	tiffUndefined: 1,
	8:             2, // SSHORT
	9:             4, // SLONG
	10:            8, // SRATIONAL
	11:            4, // FLOAT
	12:            8, // DOUBLE
	13:            4, // IFD
	16:            8, // LONG8
}

// readDirectory reads the directory as Pillow does: the first entry of each tag, skipping unknown types, up to the
// first entry whose data is outside b. It returns false if b does not start like a TIFF file.
func readDirectory(b []byte) (tiffDirectory, bool) {
	if len(b) < 8 {
		return nil, false
	}
	var order binary.ByteOrder
	switch string(b[:4]) {
	case "II*\x00", "II\x00*":
		order = binary.LittleEndian
	case "MM\x00*", "MM*\x00":
		order = binary.BigEndian
	default:
		return nil, false
	}
	dir := tiffDirectory{}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return dir, true
	}
	entries, sum := b[at+2:], uint64(0)
	for range order.Uint16(b[at:]) {
		if len(entries) < 12 {
			break
		}
		e := entries[:12]
		entries = entries[12:]
		tag, kind, count := order.Uint16(e), order.Uint16(e[2:]), uint64(order.Uint32(e[4:]))
		n := count * tiffSizes[kind]
		if _, ok := dir[tag]; ok || n == 0 {
			continue
		}
		if n <= 4 {
			dir[tag] = tiffEntry{order, kind, e[8 : 8+n]}
			continue
		}
		if sum += n; sum > uint64(len(b)) {
			continue
		}
		place := uint64(order.Uint32(e[8:]))
		if place+n > uint64(len(b)) {
			break
		}
		dir[tag] = tiffEntry{order, kind, b[place : place+n]}
	}
	return dir, true
}

func (e tiffEntry) count() int { return len(e.data) / int(max(tiffSizes[e.kind], 1)) }

// numbers returns the values, at most the first 16, nil if they are texts or plain bytes. No tag that is read this
// way has more.
func (e tiffEntry) numbers() []float64 {
	var out []float64
	size := int(tiffSizes[e.kind])
	for b := e.data; len(b) >= size && len(out) < 16; b = b[size:] {
		var v float64
		switch e.kind {
		case tiffShort:
			v = float64(e.order.Uint16(b))
		case tiffLong, 13:
			v = float64(e.order.Uint32(b))
		case 5:
			v = float64(e.order.Uint32(b)) / float64(e.order.Uint32(b[4:]))
		case 6:
			v = float64(int8(b[0]))
		case 8:
			v = float64(int16(e.order.Uint16(b)))
		case 9:
			v = float64(int32(e.order.Uint32(b)))
		case 10:
			v = float64(int32(e.order.Uint32(b))) / float64(int32(e.order.Uint32(b[4:])))
		case 11:
			v = float64(math.Float32frombits(e.order.Uint32(b)))
		case 12:
			v = math.Float64frombits(e.order.Uint64(b))
		case 16:
			v = float64(e.order.Uint64(b))
		default:
			return nil
		}
		out = append(out, v)
	}
	return out
}

// wholeDirectory is readDirectory, but accepts only a directory without anything unusual: no entry is skipped, and
// all values of tiffAsked are of type SHORT or LONG.
func wholeDirectory(b []byte) (tiffDirectory, bool) {
	dir, ok := readDirectory(b)
	if !ok || len(dir) == 0 {
		return nil, false
	}
	for tag, e := range dir {
		if slices.Contains(tiffAsked, tag) && e.kind != tiffShort && e.kind != tiffLong {
			return nil, false
		}
	}
	order := dir.order()
	return dir, len(dir) == int(order.Uint16(b[order.Uint32(b[4:]):]))
}

// order is the byte order of the file.
func (dir tiffDirectory) order() binary.ByteOrder {
	for _, e := range dir {
		return e.order
	}
	return binary.LittleEndian
}

// places returns all values as offsets or lengths, nil if they are neither SHORT nor LONG.
func (e tiffEntry) places() []uint64 {
	if e.kind != tiffShort && e.kind != tiffLong {
		return nil
	}
	out := make([]uint64, e.count())
	for i := range out {
		if e.kind == tiffShort {
			out[i] = uint64(e.order.Uint16(e.data[2*i:]))
		} else {
			out[i] = uint64(e.order.Uint32(e.data[4*i:]))
		}
	}
	return out
}

// number returns a tag's first value, or missing if the tag is absent.
func (d tiffDirectory) number(tag uint16, missing float64) float64 {
	if v := d[tag].numbers(); len(v) > 0 {
		return v[0]
	}
	return missing
}
