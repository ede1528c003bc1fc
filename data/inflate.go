package data

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"

	"assay/internal/codecs"
)

// Most bytes that libdeflate inflates in one call, which no context stops: packed ones, of which empty blocks take most
// time (16 MiB some two seconds, a picture's a tenth of that), and inflated ones, which lie in memory.
const (
	wholePacked   = 16 << 20
	wholeInflated = 64 << 20
)

// inflatesWhole reports whether libdeflate is to inflate a stream of so many bytes to size bytes: it is there, and the
// stream is no longer than stored blocks would be. Others go through Go's package, piece by piece.
func inflatesWhole(packed, size int) bool {
	return size <= wholeInflated && packed <= min(wholePacked, size+size/1000+1024) && noLibdeflate() == nil
}

// inflated reads a zlib stream of size bytes. It ends with an error if the checksum is wrong or anything is behind the
// stream.
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

// A wholeStream reads what its source holds, and fails if the source has more.
type wholeStream struct {
	io.Reader
	source *bytes.Reader
}

func (s wholeStream) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err == io.EOF && s.source.Len() > 0 {
		err = errors.New("bytes behind the end of the compressed data")
	}
	return n, err
}

// noLibdeflate says why there is no libdeflate, nil if there is. Tests replace it.
var noLibdeflate = func() error {
	_, err := codecs.Deflate()
	return err
}
