package parquet

import (
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	parquetzstd "github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// pageCodec compresses pages with zstd as the library does, but with one encoder and a smaller window. The library's
// encoders take 16 MiB each for a window of 8 MiB, and are recreated after every garbage collection. Pages have 256
// KiB, or one large value.
type pageCodec struct {
	parquetzstd.Codec

	once    sync.Once
	encoder *zstd.Encoder
	err     error
}

// pageWindow is the zstd window size.
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

// copiedField is a column of another file, or a group of them, that is copied. Its pages are compressed with
// pageCodec if they were compressed with zstd there.
type copiedField struct {
	parquet.Field
	codec *pageCodec
}

// Compression implements parquet.Node.
func (f copiedField) Compression() compress.Codec {
	of := f.Field.Compression()
	if of != nil && of.CompressionCodec() == f.codec.CompressionCodec() {
		return f.codec
	}
	return of
}

// Encoding implements parquet.Node. A column without a dictionary lists RLE, for its levels, and PLAIN, for its
// values. The library takes the first for the encoding of the values, which only booleans can have.
func (f copiedField) Encoding() encoding.Encoding {
	of := f.Field.Encoding()
	if of != nil && of.Encoding() == format.RLE && f.Type().Kind() != parquet.Boolean {
		return &parquet.Plain
	}
	return of
}

// Fields implements parquet.Node.
func (f copiedField) Fields() []parquet.Field {
	fields := slices.Clone(f.Field.Fields())
	for i := range fields {
		fields[i] = copiedField{fields[i], f.codec}
	}
	return fields
}
