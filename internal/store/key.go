package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Key is a SHA-256: of a file's bytes, of a picture's pixels, or of several things by KeyOf.
type Key [32]byte

// KeyOf is the digest of a list of strings, each with its length before it, so that no two lists have the same.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p)) // never fails
	}
	return Key(h.Sum(nil))
}

// String is the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }
