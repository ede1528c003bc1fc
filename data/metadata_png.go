package data

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"io"
)

// maxText bounds a decompressed text of a PNG, as in Pillow.
const maxText = 1 << 20

const rawProfile, xmpKeyword = "Raw profile type exif", "XML:com.adobe.xmp"

// pngMetadata finds EXIF in its own chunk, or as hexadecimal digits in a text, as old ImageMagick wrote it. Of
// several chunks Pillow takes the last.
func pngMetadata(raw []byte) (exif, xmp []byte) {
	texts := map[string][]byte{}
	for b := raw[8:]; len(b) >= 12; {
		n := uint64(binary.BigEndian.Uint32(b))
		if n+12 > uint64(len(b)) {
			break
		}
		body := b[8 : 8+n]
		switch kind := string(b[4:8]); kind {
		case "eXIf":
			exif = body
		case "tEXt", "zTXt", "iTXt":
			if keyword, text, ok := pngText(kind, body); ok {
				texts[keyword] = text
			}
		}
		b = b[12+n:]
	}
	if exif == nil {
		exif = unhex(texts[rawProfile])
	}
	return exif, texts[xmpKeyword]
}

// pngText reads a text that may hold metadata: a keyword, a zero, and the text. In an iTXt two bytes about compression,
// a language and a translated keyword, each ended by a zero, come before the text; in a zTXt one byte.
func pngText(kind string, body []byte) (keyword string, text []byte, ok bool) {
	key, text, ok := bytes.Cut(body, []byte{0})
	if keyword = string(key); !ok || keyword != rawProfile && keyword != xmpKeyword {
		return keyword, nil, false
	}
	packed := false
	switch kind {
	case "zTXt":
		if len(text) == 0 || text[0] != 0 {
			return keyword, nil, false
		}
		packed, text = true, text[1:]
	case "iTXt":
		if len(text) < 2 || text[0] != 0 && text[1] != 0 {
			return keyword, nil, false
		}
		parts := bytes.SplitN(text[2:], []byte{0}, 3)
		if len(parts) < 3 {
			return keyword, nil, false
		}
		packed, text = text[0] != 0, parts[2]
	}
	if packed {
		r, err := zlib.NewReader(bytes.NewReader(text))
		if err != nil {
			return keyword, nil, false
		}
		text, err = io.ReadAll(io.LimitReader(r, maxText))
		if err != nil {
			return keyword, nil, false
		}
	}
	return keyword, text, true
}

// unhex reads a profile: three lines (empty, its name, its length) and lines of hexadecimal digits.
func unhex(profile []byte) []byte {
	lines := bytes.SplitN(profile, []byte("\n"), 4)
	if len(lines) < 4 {
		return nil
	}
	digits := bytes.Join(bytes.Fields(lines[3]), nil)
	out := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(out, digits); err != nil {
		return nil
	}
	return out
}
