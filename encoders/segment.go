package encoders

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// key identifies a picture or a text by its content.
type key [32]byte

// segment is one file of a cache: records key, uint32 n, n float32, CRC-32 of all that (little-endian). It only ever grows, by
// the one process that holds its lock; a record that a crash cut off is overwritten by the next.
type segment struct {
	*os.File
	size    int64 // of whole records
	touched bool  // its time of last use is up to date
}

const (
	head        = len(key{}) + 4
	mostNumbers = 1 << 20 // of an embedding; more means that the bytes are damaged
	segmentExt  = ".emb"
)

func recordSize(numbers int) int64 { return int64(head + 4*numbers + 4) }

// openSegment opens a segment and calls found for every record.
func openSegment(path string, found func(k key, offset int64)) (*segment, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &segment{File: f}
	var h [head]byte
	for {
		if _, err := f.ReadAt(h[:], s.size); err != nil {
			return s, nil // the end, perhaps of a record that was cut off
		}
		n := int(binary.LittleEndian.Uint32(h[len(key{}):]))
		next := s.size + recordSize(n)
		if n == 0 || n > mostNumbers || next > info.Size() {
			return s, nil
		}
		found(key(h[:len(key{})]), s.size)
		s.size = next
	}
}

// newSegment makes an empty segment of this process.
func newSegment(folder string) (*segment, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(folder, rand.Text()[:12]+segmentExt), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	s := &segment{File: f, touched: true}
	if !s.lock() {
		f.Close()
		return nil, fmt.Errorf("%s cannot be locked", f.Name())
	}
	return s, nil
}

// lock makes this process the only one that appends, until it ends; false if there is another one.
func (s *segment) lock() bool {
	return syscall.Flock(int(s.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// append writes a record and returns its offset.
func (s *segment) append(k key, v []float32) (int64, error) {
	b := append(make([]byte, 0, recordSize(len(v))), k[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	at := s.size
	if _, err := s.WriteAt(b, at); err != nil {
		return 0, err
	}
	s.size += int64(len(b))
	return at, nil
}

// read returns the record of a key; nil if it is damaged.
func (s *segment) read(k key, offset int64) []float32 {
	var h [head]byte
	if _, err := s.ReadAt(h[:], offset); err != nil || key(h[:len(key{})]) != k {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(h[len(key{}):]))
	if n > mostNumbers {
		return nil
	}
	b := make([]byte, recordSize(n))
	if _, err := s.ReadAt(b, offset); err != nil {
		return nil
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.ChecksumIEEE(body) != sum {
		return nil
	}
	if !s.touched {
		s.touched = true
		now := time.Now()
		os.Chtimes(s.Name(), now, now) // fails where others own the file: then it looks older than it is
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[head+4*i:]))
	}
	return v
}
