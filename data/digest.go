package data

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"assay/internal/remote"
)

// decoding is the version of Decode's results. Increment it whenever any picture decodes to different pixels, to
// invalidate stored pixel digests.
const decoding = "3"

// Decoding identifies Decode's results: its version, and the JPEG decoder unless it is Go's. Anything cached by a
// picture's file rather than by its pixels must include it in the key.
func Decoding() string {
	if name, _ := JPEGDecoder(); name != GoDecoder {
		return decoding + " " + name
	}
	return decoding
}

// Digest identifies the pixels of a picture: the SHA-256 of width and height (uint64, little-endian) and of the RGB
// bytes. Files with the same pixels have the same digest.
func (p *Picture) Digest() [32]byte {
	h := sha256.New()
	size := binary.LittleEndian.AppendUint64(nil, uint64(p.Width))
	h.Write(binary.LittleEndian.AppendUint64(size, uint64(p.Height)))
	h.Write(p.Pix) // never fails
	return [32]byte(h.Sum(nil))
}

// File is the path of a picture that is a separate file or object, "" for embedded pictures. Relative paths start at
// folder.
func (m Image) File(folder string) string {
	if len(m.Bytes) > 0 || m.Path == "" {
		return ""
	}
	return remote.Join(folder, m.Path)
}

// Size is the stored size of a picture in bytes. It is 0 if unknown: object storage would need one request per
// object. Relative paths start at folder.
func (m Image) Size(folder string) int64 {
	if len(m.Bytes) > 0 || m.Path == "" {
		return int64(len(m.Bytes))
	}
	info, err := os.Stat(m.File(folder))
	if err != nil {
		return 0
	}
	return info.Size()
}

// Read returns the encoded bytes of the picture. Relative paths start at folder; more than l.MaxBytes is an error.
func (m Image) Read(folder string, l Limits) ([]byte, error) {
	switch {
	case m.IsZero():
		return nil, errors.New("no picture")
	case len(m.Bytes) == 0:
		return readLimited(m.File(folder), l.bytes())
	case int64(len(m.Bytes)) > l.bytes():
		return nil, fmt.Errorf("%s: %w: more than %d bytes", m.name(), ErrLimit, l.bytes())
	}
	return m.Bytes, nil
}

// Decode decodes what Read returned; errors name the picture.
func (m Image) Decode(folder string, raw []byte, l Limits) (*Picture, error) {
	p, err := Decode(raw, l)
	if err == nil {
		return p, nil
	}
	name := m.File(folder)
	if name == "" {
		name = m.name()
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}
