package data

import (
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	parquetzstd "github.com/parquet-go/parquet-go/compress/zstd"
)

// pageCodec compresses pages by zstd as the library does, with one encoder that remembers less. The library's have 16
// MiB each for what lies 8 MiB back, and after every collection of garbage there are new ones. Pages have 256 KiB, or
// one large value.
type pageCodec struct {
	parquetzstd.Codec

	once    sync.Once
	encoder *zstd.Encoder
	err     error
}

// pageWindow is how far back a page refers to itself.
const pageWindow = 1 << 20

// Encode implements compress.Codec. It is safe for concurrent use.
func (c *pageCodec) Encode(dst, src []byte) ([]byte, error) {
	c.once.Do(func() {
		c.encoder, c.err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault),
			zstd.WithWindowSize(pageWindow), zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false))
	})
	if c.err != nil {
		return nil, c.err
	}
	return c.encoder.EncodeAll(src, dst[:0]), nil
}

// packedField is a column of another file, or a group of them, whose pages are compressed by a pageCodec if they were
// by zstd there.
type packedField struct {
	parquet.Field
	codec *pageCodec
}

// Compression implements parquet.Node.
func (f packedField) Compression() compress.Codec {
	of := f.Field.Compression()
	if of != nil && of.CompressionCodec() == f.codec.CompressionCodec() {
		return f.codec
	}
	return of
}

// Fields implements parquet.Node.
func (f packedField) Fields() []parquet.Field {
	fields := slices.Clone(f.Field.Fields())
	for i := range fields {
		fields[i] = packedField{fields[i], f.codec}
	}
	return fields
}
