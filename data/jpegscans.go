package data

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"io"
	"maps"
	"slices"
)

// Markers of JPEG.
const (
	jpegBaseline              = 0xc0
	jpegExtended              = 0xc1
	jpegProgressive           = 0xc2
	jpegHuffman               = 0xc4
	jpegArithmetic            = 0xc9
	jpegArithmeticProgressive = 0xca
	jpegRestart               = 0xd0 // to 0xd7
	jpegEnd                   = 0xd9
	jpegScan                  = 0xda
	jpegQuantizer             = 0xdb
	jpegInterval              = 0xdd
)

// jpegFrames are the frames that are read.
var jpegFrames = []byte{jpegBaseline, jpegExtended, jpegProgressive, jpegArithmetic, jpegArithmeticProgressive}

// jpegMaxScans bounds the cost of a small file: a scan of few bytes goes through all pixels. Encoders write about ten.
const jpegMaxScans = 500

// A jpegFrame is what a JPEG file says before its pixels, and its scans.
type jpegFrame struct {
	kind          byte // one of jpegFrames
	width, height int
	components    []jpegComponent
	adobe         int // the transform in an Adobe marker, -1 without one
	jfif          bool
	steps         []jpegStep
	scans         int
}

// A jpegComponent has h x v blocks in each unit of interleaved scans.
type jpegComponent struct{ id, h, v, quantizer byte }

// A jpegStep is a segment of quantization tables, or a scan.
type jpegStep struct {
	quantizers []byte

	components []int           // those in the scan
	selectors  []byte          // the Huffman tables of each: DC << 4 | AC
	bounds     [3]byte         // first and last coefficient, and bits
	interval   int             // restart interval, 0 without restarts
	tables     map[byte][]byte // class << 4 | number: how many codes there are of each length, and the symbols
	compressed []byte          // with restart markers
}

func jpegConfig(raw []byte) (image.Config, error) {
	f, err := readJPEG(raw, true)
	if err != nil {
		return image.Config{}, err
	}
	return image.Config{Width: f.width, Height: f.height}, nil
}

// readJPEG reads the segments up to the end of the picture, or only up to the frame's header.
func readJPEG(raw []byte, header bool) (*jpegFrame, error) {
	r := jpegReader{jpegFrame: &jpegFrame{adobe: -1}, tables: map[byte][]byte{}}
	for b := raw[2:]; len(b) >= 2; {
		if b[0] != 0xff || b[1] == 0xff || b[1] == 0 || b[1]&^7 == jpegRestart { // bytes that decoders skip
			b = b[1:]
			continue
		}
		if b[1] == jpegEnd {
			return r.jpegFrame, r.complete()
		}
		if len(b) < 4 || len(b) < 2+(int(b[2])<<8|int(b[3])) || b[2] == 0 && b[3] < 2 {
			break
		}
		n, err := r.segment(b)
		if err != nil || header && len(r.components) > 0 {
			return r.jpegFrame, err
		}
		b = b[n:]
	}
	return nil, io.ErrUnexpectedEOF
}

// jpegReader reads the segments of a file one after the other.
type jpegReader struct {
	*jpegFrame
	tables   map[byte][]byte // Huffman tables, as they are now
	interval int             // of restarts
}

// segment reads the segment that b begins with, and the compressed data behind a scan's header. It returns the length
// of both.
func (r *jpegReader) segment(b []byte) (n int, err error) {
	marker := b[1]
	n = 2 + (int(b[2])<<8 | int(b[3]))
	body := b[4:n]
	switch {
	case slices.Contains(jpegFrames, marker):
		err = r.readFrame(marker, body)
	case marker == jpegHuffman:
		err = readTables(r.tables, body)
	case marker > jpegBaseline && marker < 0xd0 && marker != 0xc8 && marker != 0xcc:
		err = fmt.Errorf("frames of kind %d", marker-jpegBaseline)
	case marker == jpegQuantizer:
		r.steps = append(r.steps, jpegStep{quantizers: b[:n]})
	case marker == jpegInterval && len(body) == 2:
		r.interval = int(body[0])<<8 | int(body[1])
	case marker == 0xe0:
		r.jfif = r.jfif || bytes.HasPrefix(body, []byte("JFIF\x00"))
	case marker == 0xee && len(body) >= 12 && bytes.HasPrefix(body, []byte("Adobe")):
		r.adobe = int(body[11])
	case marker == jpegScan:
		compressed := b[n : n+scanLength(b[n:])]
		err = r.readScan(jpegStep{interval: r.interval, tables: maps.Clone(r.tables), compressed: compressed}, body)
		n += len(compressed)
	}
	return n, err
}

// scanLength returns how many bytes come before the marker that ends a scan.
func scanLength(b []byte) int {
	for at := 0; ; at++ {
		next := bytes.IndexByte(b[at:], 0xff)
		if next < 0 || at+next+1 >= len(b) {
			return len(b)
		}
		at += next
		if c := b[at+1]; c != 0 && c != 0xff && c&^7 != jpegRestart {
			return at
		}
	}
}

func (f *jpegFrame) readFrame(kind byte, b []byte) error {
	if len(b) < 6 || len(b) != 6+3*int(b[5]) || len(f.components) > 0 {
		return errors.New("broken frame header")
	}
	if b[0] != 8 {
		return notRead{"JPEG", "another depth than 8 bits"}
	}
	f.kind, f.height, f.width = kind, int(b[1])<<8|int(b[2]), int(b[3])<<8|int(b[4])
	for b = b[6:]; len(b) > 0; b = b[3:] {
		c := jpegComponent{b[0], b[1] >> 4, b[1] & 15, b[2]}
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 {
			return errors.New("broken sampling factors")
		}
		f.components = append(f.components, c)
	}
	if n := len(f.components); n != 1 && n != 3 && n != 4 {
		return notRead{"JPEG", "another number of channels than 1, 3 and 4"}
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

func (f *jpegFrame) readScan(s jpegStep, b []byte) error {
	if len(b) < 4 || len(b) != 4+2*int(b[0]) {
		return errors.New("broken scan header")
	}
	for i := range int(b[0]) {
		found := -1
		for k, c := range f.components {
			if c.id == b[1+2*i] {
				found = k
			}
		}
		if found < 0 {
			return errors.New("a scan of an unknown channel")
		}
		s.components, s.selectors = append(s.components, found), append(s.selectors, b[2+2*i])
	}
	if f.scans++; f.scans > jpegMaxScans {
		return fmt.Errorf("more than %d scans", jpegMaxScans)
	}
	s.bounds = [3]byte(b[len(b)-3:])
	f.steps = append(f.steps, s)
	return nil
}

func (f *jpegFrame) progressive() bool {
	return f.kind == jpegProgressive || f.kind == jpegArithmeticProgressive
}

// complete is an error if a progressive file lacks scans of the coefficients from which libjpeg would make up others.
func (f *jpegFrame) complete() error {
	if !f.progressive() {
		return nil
	}
	const first, last = 1, 9
	for k := range f.components {
		missing := map[int]bool{}
		for i := first; i <= last; i++ {
			missing[i] = true
		}
		for _, s := range f.steps {
			for i := int(s.bounds[0]); i <= int(s.bounds[1]) && slices.Contains(s.components, k); i++ {
				missing[i] = s.bounds[2]&15 != 0 // bits of it are to come
			}
		}
		for i := first; i <= last; i++ {
			if missing[i] {
				return notRead{"JPEG", "scans missing, which libjpeg smooths over,"}
			}
		}
	}
	return nil
}

// most returns the largest sampling factors.
func (f *jpegFrame) most() (h, v int) {
	for _, c := range f.components {
		h, v = max(h, int(c.h)), max(v, int(c.v))
	}
	return h, v
}

// size returns how many samples a component has.
func (f *jpegFrame) size(c jpegComponent) (width, height int) {
	h, v := f.most()
	return (f.width*int(c.h) + h - 1) / h, (f.height*int(c.v) + v - 1) / v
}

// A jpegColour says what the channels are.
type jpegColour int

const (
	jpegGrey jpegColour = iota
	jpegYCbCr
	jpegRGB
	jpegCMYK
	jpegYCCK
)

// colour is libjpeg's guess.
func (f *jpegFrame) colour() jpegColour {
	switch len(f.components) {
	case 1:
		return jpegGrey
	case 4:
		if f.adobe > 0 {
			return jpegYCCK
		}
		return jpegCMYK
	}
	if !f.jfif && (f.adobe == 0 || f.adobe < 0 && f.named("RGB")) {
		return jpegRGB
	}
	return jpegYCbCr
}

func (f *jpegFrame) named(ids string) bool {
	for i, c := range f.components {
		if i < len(ids) && c.id != ids[i] {
			return false
		}
	}
	return true
}

// plain reports whether image/jpeg decodes the frame, and as libjpeg does. It miscounts restarts in scans of one
// component of several blocks a unit, repeats samples where a colour space is not YCbCr, and knows few sampling
// factors. It takes components that are called R, G and B for that even if an Adobe marker says otherwise, and wants
// that marker in CMYK.
func (f *jpegFrame) plain() bool {
	if len(f.components) == 1 {
		return true
	}
	for _, s := range f.steps {
		if s.interval > 0 && len(s.components) == 1 {
			if c := f.components[s.components[0]]; c.h*c.v > 1 {
				return false
			}
		}
	}
	for _, c := range f.components[1:] {
		if c.h != 1 || c.v != 1 {
			return false
		}
	}
	first := f.components[0]
	switch f.colour() {
	case jpegYCbCr:
		return first.h != 3 && first.v <= 2 && (f.jfif || f.adobe < 0 || !f.named("RGB"))
	case jpegRGB:
		return first.h == 1 && first.v == 1
	}
	return first.h == 1 && first.v == 1 && f.adobe >= 0
}
