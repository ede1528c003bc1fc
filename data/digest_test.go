package data

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/packed"
)

// TestDigest: the digest covers width, height and pixels, so pictures with the same bytes but different shapes
// differ.
func TestDigest(t *testing.T) {
	p := &Picture{Width: 2, Height: 1, Pix: []byte{1, 2, 3, 4, 5, 6}}
	want := sha256.Sum256([]byte{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6})
	if p.Digest() != want {
		t.Errorf("%x, want %x", p.Digest(), want)
	}
	turned := &Picture{Width: 1, Height: 2, Pix: p.Pix}
	if turned.Digest() == p.Digest() {
		t.Errorf("a picture of another shape: got the same digest %x, want another", p.Digest())
	}
}

// TestDecodingVersion: pixels of files are cached under Decoding. If this fails because Decode intentionally returns
// different pixels, increment the version in Decoding and update the digest.
func TestDecodingVersion(t *testing.T) {
	for name, digest := range map[string]string{
		"go":            "b64d6af8d7c65e3d422cfe3eed469953cd2b3da0958ff5f2ed7f6de8dd79f909",
		"libjpeg-turbo": "75535b532ae098a7239707651b8013d0b356d9c039db4e48a29a80b3fd305514",
	} {
		t.Run(name, func(t *testing.T) {
			withDecoders(t, name)
			decodingVersion(t, map[string]string{"go": "3", "libjpeg-turbo": "3 libjpeg-turbo"}[name], digest)
		})
	}
}

func decodingVersion(t *testing.T, version, digest string) {
	var paths []string
	for _, suite := range []string{pictures, "testdata/metadata.zip"} { // version 2 turns pictures of the second one
		found, err := filepath.Glob(filepath.Join(packed.Unpack(t, suite), "*"))
		if err != nil || len(found) == 0 {
			t.Fatalf("pictures: got %v, %v, want some", found, err)
		}
		paths = append(paths, found...)
	}
	h := sha256.New()
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Decode(raw, Limits{})
		if err != nil {
			continue
		}
		sum := p.Digest()
		h.Write(sum[:])
	}
	if got := hex.EncodeToString(h.Sum(nil)); Decoding() != version || got != digest {
		t.Errorf("got version %s with digest %s, want version %s with %s", Decoding(), got, version, digest)
	}
}
