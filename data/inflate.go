package data

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"

	"assay/internal/codecs"
)

// Most bytes that libdeflate inflates in one call, which no context can cancel: compressed, where empty blocks are
// slowest (16 MiB of them take about two seconds, picture data a tenth of that), and inflated, which are held in
// memory.
const (
	wholePacked   = 16 << 20
	wholeInflated = 64 << 20
)

// inflatesWhole reports whether libdeflate should inflate a stream of packed bytes to size bytes: it is available,
// and the stream is no longer than stored blocks would be. Other streams go through Go's package, piece by piece.
func inflatesWhole(packed, size int) bool {
	return size <= wholeInflated && packed <= min(wholePacked, size+size/1000+1024) && noLibdeflate() == nil
}

// inflated returns a reader of a zlib stream of size bytes. It ends with an error if the checksum is wrong or data
// follows the stream.
func inflated(ctx context.Context, packed []byte, size int) (io.Reader, error) {
	if inflatesWhole(len(packed), size) {
		out := make([]byte, size)
		if err := codecs.Inflate(ctx, packed, out); err != nil {
			return nil, err
		}
		return bytes.NewReader(out), nil
	}
	source := bytes.NewReader(packed)
	r, err := zlib.NewReader(source)
	return wholeStream{r, source}, err
}

// A wholeStream reads a stream, and fails if its source holds more bytes after it.
type wholeStream struct {
	io.Reader
	source *bytes.Reader
}

func (s wholeStream) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err == io.EOF && s.source.Len() > 0 {
		err = errors.New("trailing bytes after the compressed data")
	}
	return n, err
}

// noLibdeflate is the reason why libdeflate is not available, nil if it is. Tests replace it.
var noLibdeflate = func() error {
	_, err := codecs.Deflate()
	return err
}
