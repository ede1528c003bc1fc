package data

import (
	"bytes"
	"strings"
	"testing"

	"assay/internal/jpegscan"
	"assay/internal/packed"
)

// TestJPEGScans: a file with more scans than any encoder writes is refused, whichever decoder is used.
func TestJPEGScans(t *testing.T) {
	raw := packed.File(t, "testdata/headers.zip", "frame_22_11_11_progressive_r3.jpg")
	last := bytes.LastIndex(raw, []byte{0xff, 0xda})
	scan, end := raw[last:len(raw)-2], raw[len(raw)-2:]
	for _, decoder := range decoders {
		t.Run(decoder, func(t *testing.T) {
			withDecoders(t, decoder)
			if _, err := Decode(raw, Limits{}); err != nil {
				t.Fatal(err)
			}
			many := append(bytes.Clone(raw[:last]), bytes.Repeat(scan, jpegscan.MaxScans)...)
			_, err := Decode(append(many, end...), Limits{})
			if want := "more than 500 scans"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
		})
	}
}

// TestJPEGDecoder: caches keyed by file digest are separate for each decoder, and Go's keeps its original key.
func TestJPEGDecoder(t *testing.T) {
	for _, decoder := range decoders {
		t.Run(decoder, func(t *testing.T) {
			withDecoders(t, decoder)
			name, why := JPEGDecoder()
			if name != decoder || (why == "") != (decoder != GoDecoder) || !strings.HasPrefix(JPEGText(), decoder+" (") {
				t.Errorf("got decoder %s (%s), in words %q, want %s", name, why, JPEGText(), decoder)
			}
			if want := map[string]string{"go": "3", "libjpeg-turbo": "3 libjpeg-turbo"}[decoder]; Decoding() != want {
				t.Errorf("got %q, want %q", Decoding(), want)
			}
		})
	}
}
