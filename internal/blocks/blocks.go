// Package blocks reads files in large pieces.
package blocks

import "io"

const size = 1 << 20

// Copy is [io.Copy] in pieces of a MiB. io.Copy reads a file in pieces of 32 KiB, for each of which a file system on
// the network may be asked.
func Copy(to io.Writer, from io.Reader) (int64, error) {
	// Without its other methods, by which a reader would copy itself in its own pieces.
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, size))
}
