// Package blocks copies files in large blocks.
package blocks

import "io"

const size = 1 << 20

// Copy is [io.Copy] in blocks of 1 MiB. io.Copy reads a file in blocks of 32 KiB, and on a network file system each
// may be a request.
func Copy(to io.Writer, from io.Reader) (int64, error) {
	// The structs hide WriterTo and ReaderFrom, which would copy in blocks of their own size.
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, size))
}
