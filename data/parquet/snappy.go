package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sort"

	"github.com/klauspost/compress/snappy"
)

// snappyMark is a position from which a snappy block can be decompressed: nothing after it copies from before it.
// Writers compress pieces of 64 KiB independently, so each piece has one.
type snappyMark struct{ packed, unpacked int64 }

const snappyPiece = 1 << 16

var errSnappy = errors.New("damaged snappy data")

// markSnappy finds the marks of a block that decompresses to at most size bytes, from its tags only. The last mark is
// the end of the block.
func markSnappy(packed *io.SectionReader, size int64) ([]snappyMark, error) {
	r := &countedBytes{r: bufio.NewReaderSize(io.NewSectionReader(packed, 0, packed.Size()), 1<<16)}
	length, err := binary.ReadUvarint(r)
	if err != nil || int64(length) > size {
		return nil, errSnappy
	}
	size = int64(length)
	marks, out := []snappyMark{{r.n, 0}}, int64(0)
	for out < size {
		if out-marks[len(marks)-1].unpacked >= snappyPiece {
			marks = append(marks, snappyMark{r.n, out})
		}
		n, back, err := snappyTag(r)
		if err != nil {
			return nil, err
		}
		if back > out || back == 0 {
			return nil, errSnappy
		}
		for back > 0 && out-back < marks[len(marks)-1].unpacked {
			marks = marks[:len(marks)-1]
		}
		out += n
	}
	if out != size || r.n != packed.Size() {
		return nil, errSnappy
	}
	return append(marks, snappyMark{r.n, out}), nil
}

// snappyTag reads a tag: n literal bytes that follow (back is -1), or a copy of n bytes from back bytes earlier.
func snappyTag(r *countedBytes) (n, back int64, err error) {
	tag, err := r.ReadByte()
	if err != nil {
		return 0, 0, errSnappy
	}
	little := func(bytes int) (x int64) {
		for i := range bytes {
			b, wrong := r.ReadByte()
			if wrong != nil {
				err = errSnappy
			}
			x |= int64(b) << (8 * i)
		}
		return x
	}
	n = int64(tag >> 2)
	switch tag & 3 {
	case 0:
		if n >= 60 {
			n = little(int(n) - 59)
		}
		if n++; err == nil {
			err = r.skip(n)
		}
		return n, -1, err
	case 1:
		return 4 + n&7, int64(tag>>5)<<8 | little(1), err
	case 2:
		return n + 1, little(2), err
	}
	return n + 1, little(4), err
}

// countedBytes counts the bytes read.
type countedBytes struct {
	r *bufio.Reader
	n int64
}

// ReadByte implements io.ByteReader.
func (c *countedBytes) ReadByte() (byte, error) {
	c.n++
	return c.r.ReadByte()
}

func (c *countedBytes) skip(n int64) error {
	c.n += n
	if _, err := c.r.Discard(int(n)); err != nil {
		return errSnappy
	}
	return nil
}

// snappyReader reads a block piece by piece, starting anywhere.
type snappyReader struct {
	packed io.ReaderAt
	marks  []snappyMark
	at     int64 // position in the decompressed block
	number int   // index of the mark at which the current piece ends; 0: no piece
	piece  []byte
	raw    []byte
}

// Read implements io.Reader.
func (s *snappyReader) Read(p []byte) (n int, err error) {
	if s.at >= s.marks[len(s.marks)-1].unpacked {
		return 0, io.EOF
	}
	k := s.number
	if k == 0 || s.at < s.marks[k-1].unpacked || s.at >= s.marks[k].unpacked {
		k = sort.Search(len(s.marks), func(k int) bool { return s.marks[k].unpacked > s.at })
		if err := s.unpack(k); err != nil {
			return 0, err
		}
	}
	n = copy(p, s.piece[s.at-s.marks[k-1].unpacked:])
	s.at += int64(n)
	return n, nil
}

// unpack decompresses the piece before mark k, prefixed with its length to make it a block.
func (s *snappyReader) unpack(k int) error {
	from, to := s.marks[k-1], s.marks[k]
	s.number = 0
	s.raw = binary.AppendUvarint(s.raw[:0], uint64(to.unpacked-from.unpacked))
	head, size := len(s.raw), int(to.packed-from.packed)
	s.raw = slices.Grow(s.raw, size)[:head+size]
	if n, err := s.packed.ReadAt(s.raw[head:], from.packed); n < size {
		return ended(err)
	}
	var err error
	if s.piece, err = snappy.Decode(s.piece[:cap(s.piece)], s.raw); err != nil {
		return errSnappy
	}
	s.number = k
	return nil
}
