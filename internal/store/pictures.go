package store

import (
	"crypto/sha256"
	"sync/atomic"

	"assay/data"
)

// Pictures maps content, the digest of a picture's encoded bytes, to the digest of its pixels
// ([data.Picture.Digest]), so that pictures need not be decoded again. It is safe for concurrent use.
type Pictures struct {
	pixels  *Bucket
	decoded atomic.Int64
}

// Pictures opens the stored digests of pixels.
func (s *Store) Pictures() (*Pictures, error) {
	b, err := s.Bucket("pixels-1", "decoding "+data.Decoding())
	if err != nil {
		return nil, err
	}
	return &Pictures{pixels: b}, nil
}

// Content returns the digest of a picture's encoded bytes. Files are read once: see [FileDigest].
func Content(folder string, m data.Image) (Key, error) {
	if path := m.File(folder); path != "" {
		return FileDigest(path)
	}
	raw, err := m.Read(folder, data.Limits{})
	if err != nil {
		return Key{}, err
	}
	return sha256.Sum256(raw), nil
}

// Pixels returns the digest of the pixels for a content digest, if it is stored.
func (p *Pictures) Pixels(content Key) (pixels Key, ok bool) {
	raw := p.pixels.Get(content)
	if len(raw) != len(Key{}) {
		return Key{}, false
	}
	return Key(raw), true
}

// Open decodes a picture and stores the digest of its pixels.
func (p *Pictures) Open(folder string, m data.Image) (picture *data.Picture, content, pixels Key, err error) {
	raw, err := m.Read(folder, data.Limits{})
	if err != nil {
		return nil, content, pixels, err
	}
	return p.Decode(folder, m, raw)
}

// Decode is Open for bytes that were already read.
func (p *Pictures) Decode(folder string, m data.Image, raw []byte) (
	picture *data.Picture, content, pixels Key, err error) {
	content = sha256.Sum256(raw)
	if picture, err = m.Decode(folder, raw, data.Limits{}); err != nil {
		return nil, content, pixels, err
	}
	p.decoded.Add(1)
	pixels = picture.Digest()
	if _, ok := p.Pixels(content); !ok {
		p.pixels.Remember(content, pixels[:])
	}
	return picture, content, pixels, nil
}

// Decoded returns the number of decoded pictures.
func (p *Pictures) Decoded() int64 { return p.decoded.Load() }
