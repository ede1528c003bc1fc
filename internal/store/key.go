package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Key is a SHA-256: of a file's bytes, of a picture's pixels, or of a list of strings (KeyOf).
type Key [32]byte

// KeyOf returns the digest of a list of strings, each prefixed with its length, so that different lists have
// different digests.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p)) // never fails
	}
	return Key(h.Sum(nil))
}

// String returns the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }
