package data

import (
	"bytes"
	"fmt"
)

// notRead is the error for a picture that is intact, but of a kind that would decode differently from Pillow or not
// at all. docs/pictures.md lists them (TestHeaders).
type notRead struct {
	format string
	with   string // the feature that is not supported, empty for the whole format
}

func (n notRead) Error() string {
	with := ""
	if n.with != "" {
		with = " with " + n.with
	}
	return fmt.Sprintf("%s pictures%s are not supported: convert them to PNG with 8 bits per channel", n.format, with)
}

const deepGrey = "16-bit grey above 255, which Pillow clips to white,"

// notReadFormat returns the error for data in no supported format, naming the format if it is known.
func notReadFormat(raw []byte) error {
	brands := map[string]string{
		"avif": "AVIF",
		"avis": "AVIF",
		"heic": "HEIC",
		"heix": "HEIC",
		"hevc": "HEIC",
		"mif1": "HEIF",
		"msf1": "HEIF",
		"jp2 ": "JPEG 2000",
		"jxl ": "JPEG XL",
	}
	name := ""
	switch {
	case len(raw) >= 12 && string(raw[4:8]) == "ftyp":
		name = brands[string(raw[8:12])]
	case bytes.HasPrefix(raw, []byte("\x00\x00\x00\x0cjP  \r\n\x87\n")),
		bytes.HasPrefix(raw, []byte("\xff\x4f\xff\x51")):
		name = "JPEG 2000"
	case bytes.HasPrefix(raw, []byte("\x00\x00\x00\x0cJXL \r\n\x87\n")),
		bytes.HasPrefix(raw, []byte("\xff\x0a")):
		name = "JPEG XL"
	case bytes.HasPrefix(raw, []byte("II+\x00")), bytes.HasPrefix(raw, []byte("MM\x00+")):
		name = "BigTIFF"
	}
	if name == "" {
		return fmt.Errorf("not a PNG, JPEG, WebP, GIF, BMP or TIFF picture (it starts with %q)", raw[:min(len(raw), 12)])
	}
	return notRead{format: name}
}
