package data

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"

	"assay/internal/codecs"
)

// wholeInflated is the most that is inflated in one call, which no context stops: less than 0.1 s.
const wholeInflated = 64 << 20

// inflated reads a zlib stream of size bytes: all at once by libdeflate, or piece by piece by Go's package where that
// is absent or the stream is large. It ends with an error if the checksum is wrong or anything is behind the stream.
func inflated(ctx context.Context, packed []byte, size int) (io.Reader, error) {
	if noLibdeflate() == nil && size <= wholeInflated {
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
