package data

import (
	"bytes"
	"encoding/binary"
	"iter"
	"regexp"
)

// applyOrientation transposes the picture by its EXIF orientation (1 to 8, anything else is 1), like
// PIL.ImageOps.exif_transpose. docs/decisions/metadata.md explains why no library is used to read it.
func (p *Picture) applyOrientation(orientation int) *Picture {
	switch orientation {
	case 2:
		return p.FlipHorizontal()
	case 3:
		return p.Rotate90(2)
	case 4:
		return p.FlipVertical()
	case 5:
		return p.Transpose()
	case 6:
		return p.Rotate90(3)
	case 7:
		return p.Transpose().Rotate90(2)
	case 8:
		return p.Rotate90(1)
	}
	return p
}

var xmpOrientation = regexp.MustCompile(`tiff:Orientation(?:="|>)([0-9])`)

// orientation reads the EXIF block (a TIFF header and directory) and, if the tag is missing there, the XMP packet. It
// is 1 (upright) if neither has one, or if the EXIF block is broken. Pillow compares the first value with 2 to 8,
// whatever its type: a LONG, a FLOAT or a RATIONAL also rotates the picture; a text does not, and hides the XMP
// packet.
func orientation(exif, xmp []byte) int {
	const tag = 0x0112
	for range 2 { // in a PNG there may be two
		exif = bytes.TrimPrefix(exif, []byte("Exif\x00\x00"))
	}
	if len(exif) > 0 {
		dir, ok := readDirectory(exif)
		if _, has := dir[tag]; has || !ok {
			v := dir.number(tag, 1)
			if v >= 2 && v <= 8 && v == float64(int(v)) {
				return int(v)
			}
			return 1
		}
	}
	if m := xmpOrientation.FindSubmatch(xmp); m != nil {
		return int(m[1][0] - '0')
	}
	return 1
}

func tiffMetadata(raw []byte) (exif, xmp []byte) {
	dir, _ := readDirectory(raw)
	if e := dir[tiffXMP]; e.kind == tiffBytes || e.kind == tiffUndefined {
		xmp = e.data
	}
	return raw, xmp
}

func jpegMetadata(raw []byte) (exif, xmp []byte) {
	const app1, startOfScan = 0xe1, 0xda
	for b := raw[2:]; len(b) >= 4 && b[0] == 0xff && b[1] != startOfScan; {
		n := 2 + int(binary.BigEndian.Uint16(b[2:]))
		if b[1] == 0xff { // fill byte
			b = b[1:]
			continue
		}
		if n < 4 || n > len(b) {
			break
		}
		body := b[4:n]
		if xmpName := []byte("http://ns.adobe.com/xap/1.0/\x00"); b[1] == app1 && bytes.HasPrefix(body, xmpName) {
			xmp = body[len(xmpName):]
		} else if exifName := []byte("Exif\x00\x00"); b[1] == app1 && bytes.HasPrefix(body, exifName) {
			if exif != nil { // continued from an earlier segment
				body = body[len(exifName):]
			}
			exif = append(exif, body...)
		}
		b = b[n:]
	}
	return exif, xmp
}

func webpMetadata(raw []byte) (exif, xmp []byte) {
	const exifFlag, xmpFlag = 1 << 3, 1 << 2
	flags, first := byte(0), true
	for id, body := range riffChunks(raw) {
		if first && id == "VP8X" && len(body) > 0 {
			flags = body[0]
		}
		first = false
		switch { // libwebp reads the chunks that the header announces, the first of each kind
		case id == "EXIF" && flags&exifFlag != 0 && exif == nil:
			exif = body
		case id == "XMP " && flags&xmpFlag != 0 && xmp == nil:
			xmp = body
		}
	}
	return exif, xmp
}

// riffChunks yields the complete chunks of a RIFF file.
func riffChunks(raw []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for b := raw[12:]; len(b) >= 8; {
			n := uint64(binary.LittleEndian.Uint32(b[4:]))
			if n+8 > uint64(len(b)) || !yield(string(b[:4]), b[8:8+n]) {
				return
			}
			b = b[min(8+n+n&1, uint64(len(b))):]
		}
	}
}
