// Package jpegscan parses the segments of a JPEG file without decoding them: its frame header and its scans. Package
// data uses it to read sizes, to refuse files that would not decode as in libjpeg, and to choose a decoder. Split
// rewrites a file as one file per component, which image/jpeg can decode when it does not decode the original
// correctly.
package jpegscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Markers of JPEG.
const (
	markBaseline              = 0xc0
	markExtended              = 0xc1
	markProgressive           = 0xc2
	markHuffman               = 0xc4
	markArithmetic            = 0xc9
	markArithmeticProgressive = 0xca
	markRestart               = 0xd0 // to 0xd7
	markEnd                   = 0xd9
	markScan                  = 0xda
	markQuantizer             = 0xdb
	markInterval              = 0xdd
)

// frames are the supported frame types.
var frames = []byte{markBaseline, markExtended, markProgressive, markArithmetic, markArithmeticProgressive}

// MaxScans bounds the cost of a small file, since a scan of a few bytes can cover all pixels. Encoders write about
// ten.
const MaxScans = 500

// Unsupported is the error for an intact file with an unsupported feature, which it names.
type Unsupported string

func (u Unsupported) Error() string { return "JPEG with " + string(u) + " is not supported" }

// A Frame is the header information of a JPEG file, and its scans.
type Frame struct {
	Width, Height int
	Components    []Component
	kind          byte // one of frames
	adobe         int  // the transform in an Adobe marker, -1 without one
	jfif          bool
	steps         []step
	scans         int
}

// A Component has H x V blocks (its sampling factors) in each MCU of an interleaved scan.
type Component struct{ id, H, V, quantizer byte }

// A step is a segment of quantization tables, or a scan.
type step struct {
	quantizers []byte

	components []int           // indices of the components in the scan
	selectors  []byte          // the Huffman tables of each: DC << 4 | AC
	bounds     [3]byte         // first and last coefficient, and bits (Ss, Se, Ah and Al)
	interval   int             // restart interval, 0 without restarts
	tables     map[byte][]byte // class << 4 | number: the number of codes of each length, and the symbols
	compressed []byte          // with restart markers
}

// Read reads the segments up to the end of the picture, or only up to the frame header.
func Read(raw []byte, header bool) (*Frame, error) {
	r := reader{Frame: &Frame{adobe: -1}, tables: map[byte][]byte{}}
	for b := raw[2:]; len(b) >= 2; {
		if b[0] != 0xff || b[1] == 0xff || b[1] == 0 || b[1]&^7 == markRestart { // bytes that decoders skip
			b = b[1:]
			continue
		}
		if b[1] == markEnd {
			return r.Frame, r.complete()
		}
		if len(b) < 4 || len(b) < 2+(int(b[2])<<8|int(b[3])) || b[2] == 0 && b[3] < 2 {
			break
		}
		n, err := r.segment(b)
		if err != nil || header && len(r.Components) > 0 {
			return r.Frame, err
		}
		b = b[n:]
	}
	return nil, io.ErrUnexpectedEOF
}

// reader reads the segments of a file one after another.
type reader struct {
	*Frame
	tables   map[byte][]byte // current Huffman tables
	interval int             // of restarts
}

// segment reads the segment at the start of b, and the compressed data after a scan header. It returns the length of
// both.
func (r *reader) segment(b []byte) (n int, err error) {
	marker := b[1]
	n = 2 + (int(b[2])<<8 | int(b[3]))
	body := b[4:n]
	switch {
	case slices.Contains(frames, marker):
		err = r.readFrame(marker, body)
	case marker == markHuffman:
		err = readTables(r.tables, body)
	case marker > markBaseline && marker < 0xd0 && marker != 0xc8 && marker != 0xcc:
		err = fmt.Errorf("frames of kind %d", marker-markBaseline)
	case marker == markQuantizer:
		r.steps = append(r.steps, step{quantizers: b[:n]})
	case marker == markInterval && len(body) == 2:
		r.interval = int(body[0])<<8 | int(body[1])
	case marker == 0xe0:
		r.jfif = r.jfif || bytes.HasPrefix(body, []byte("JFIF\x00"))
	case marker == 0xee && len(body) >= 12 && bytes.HasPrefix(body, []byte("Adobe")):
		r.adobe = int(body[11])
	case marker == markScan:
		compressed := b[n : n+scanLength(b[n:])]
		err = r.readScan(step{interval: r.interval, tables: maps.Clone(r.tables), compressed: compressed}, body)
		n += len(compressed)
	}
	return n, err
}

// scanLength returns the number of bytes before the marker that ends a scan.
func scanLength(b []byte) int {
	for at := 0; ; at++ {
		next := bytes.IndexByte(b[at:], 0xff)
		if next < 0 || at+next+1 >= len(b) {
			return len(b)
		}
		at += next
		if c := b[at+1]; c != 0 && c != 0xff && c&^7 != markRestart {
			return at
		}
	}
}

func (f *Frame) readFrame(kind byte, b []byte) error {
	if len(b) < 6 || len(b) != 6+3*int(b[5]) || len(f.Components) > 0 {
		return errors.New("broken frame header")
	}
	if b[0] != 8 {
		return Unsupported("a depth other than 8 bits")
	}
	f.kind, f.Height, f.Width = kind, int(b[1])<<8|int(b[2]), int(b[3])<<8|int(b[4])
	for b = b[6:]; len(b) > 0; b = b[3:] {
		c := Component{b[0], b[1] >> 4, b[1] & 15, b[2]}
		if c.H < 1 || c.H > 4 || c.V < 1 || c.V > 4 {
			return errors.New("broken sampling factors")
		}
		f.Components = append(f.Components, c)
	}
	if n := len(f.Components); n != 1 && n != 3 && n != 4 {
		return Unsupported("a number of channels other than 1, 3 and 4")
	}
	return nil
}

func readTables(tables map[byte][]byte, b []byte) error {
	for len(b) > 0 {
		n := 17
		for _, c := range b[1:min(17, len(b))] {
			n += int(c)
		}
		if len(b) < n {
			return errors.New("broken Huffman table")
		}
		tables[b[0]], b = b[1:n], b[n:]
	}
	return nil
}

func (f *Frame) readScan(s step, b []byte) error {
	if len(b) < 4 || len(b) != 4+2*int(b[0]) {
		return errors.New("broken scan header")
	}
	for i := range int(b[0]) {
		found := -1
		for k, c := range f.Components {
			if c.id == b[1+2*i] {
				found = k
			}
		}
		if found < 0 {
			return errors.New("a scan of an unknown component")
		}
		s.components, s.selectors = append(s.components, found), append(s.selectors, b[2+2*i])
	}
	if f.scans++; f.scans > MaxScans {
		return fmt.Errorf("more than %d scans", MaxScans)
	}
	s.bounds = [3]byte(b[len(b)-3:])
	f.steps = append(f.steps, s)
	return nil
}

// Arithmetic reports whether the file uses arithmetic coding.
func (f *Frame) Arithmetic() bool {
	return f.kind == markArithmetic || f.kind == markArithmeticProgressive
}

func (f *Frame) progressive() bool {
	return f.kind == markProgressive || f.kind == markArithmeticProgressive
}

// complete is an error if a progressive file lacks scans of the low AC coefficients, for which libjpeg would smooth
// between blocks.
func (f *Frame) complete() error {
	if !f.progressive() {
		return nil
	}
	const first, last = 1, 9
	for k := range f.Components {
		missing := map[int]bool{}
		for i := first; i <= last; i++ {
			missing[i] = true
		}
		for _, s := range f.steps {
			for i := int(s.bounds[0]); i <= int(s.bounds[1]) && slices.Contains(s.components, k); i++ {
				missing[i] = s.bounds[2]&15 != 0 // low bits still to come
			}
		}
		for i := first; i <= last; i++ {
			if missing[i] {
				return Unsupported("missing scans, which libjpeg smooths over,")
			}
		}
	}
	return nil
}

// MaxSampling returns the largest sampling factors.
func (f *Frame) MaxSampling() (h, v int) {
	for _, c := range f.Components {
		h, v = max(h, int(c.H)), max(v, int(c.V))
	}
	return h, v
}

// size returns how many samples a component has.
func (f *Frame) size(c Component) (width, height int) {
	h, v := f.MaxSampling()
	return (f.Width*int(c.H) + h - 1) / h, (f.Height*int(c.V) + v - 1) / v
}

// A Colour is the colour space of the channels.
type Colour int

const (
	Grey Colour = iota
	YCbCr
	RGB
	CMYK
	YCCK
)

// Colour guesses the colour space as libjpeg does.
func (f *Frame) Colour() Colour {
	switch len(f.Components) {
	case 1:
		return Grey
	case 4:
		if f.adobe > 0 {
			return YCCK
		}
		return CMYK
	}
	if !f.jfif && (f.adobe == 0 || f.adobe < 0 && f.named("RGB")) {
		return RGB
	}
	return YCbCr
}

func (f *Frame) named(ids string) bool {
	for i, c := range f.Components {
		if i < len(ids) && c.id != ids[i] {
			return false
		}
	}
	return true
}

// Plain reports whether image/jpeg decodes the frame as libjpeg does. image/jpeg miscounts restarts in scans of a
// single component with several blocks per MCU, replicates samples for colour spaces other than YCbCr, and supports
// few sampling factors. It treats components called R, G and B as RGB even if an Adobe marker says otherwise, and
// requires that marker for CMYK.
func (f *Frame) Plain() bool {
	if len(f.Components) == 1 {
		return true
	}
	for _, s := range f.steps {
		if s.interval > 0 && len(s.components) == 1 {
			if c := f.Components[s.components[0]]; c.H*c.V > 1 {
				return false
			}
		}
	}
	for _, c := range f.Components[1:] {
		if c.H != 1 || c.V != 1 {
			return false
		}
	}
	first := f.Components[0]
	switch f.Colour() {
	case YCbCr:
		return first.H != 3 && first.V <= 2 && (f.jfif || f.adobe < 0 || !f.named("RGB"))
	case RGB:
		return first.H == 1 && first.V == 1
	}
	return first.H == 1 && first.V == 1 && f.adobe >= 0
}
