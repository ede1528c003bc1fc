package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// segment is one file of a bucket, records one after the other, little-endian:
//
//	"asr1", length of the value (uint32), address (32 bytes), CRC-32C of these
//	value, CRC-32C of it
//
// Only the process that holds its lock appends to it. A record that a crash cut off is removed, with all that
// follows, before the next one is written.
type segment struct {
	*os.File
	size int64        // of the records that are known here
	used atomic.Int64 // seconds of Unix time at which the file was last marked as used
}

const (
	recordMagic   = "asr1"
	recordHead    = len(recordMagic) + 4 + len(Key{}) + 4
	recordTail    = 4
	segmentExt    = ".segment"
	maxValueBytes = 1 << 31 // of a value
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func recordSize(value int) int64 { return int64(recordHead) + int64(value) + recordTail }

// openSegment opens a segment, for reading only where writing is not allowed.
func openSegment(path string) (*segment, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	return &segment{File: f}, nil
}

// newSegment makes an empty segment of this process.
func newSegment(folder string) (*segment, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(folder, rand.Text()[:16]+segmentExt), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	s := &segment{File: f}
	s.used.Store(time.Now().Unix())
	s.lock() // where the file system has no locks, no process appends to another's segment
	return s, nil
}

// lock makes this the only open file that is appended to, until it is closed; false if that cannot be had.
func (s *segment) lock() bool {
	return syscall.Flock(int(s.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func (s *segment) unlock() { syscall.Flock(int(s.Fd()), syscall.LOCK_UN) }

// exists reports whether the file of that name is still this segment.
func (s *segment) exists() bool {
	at, err := os.Stat(s.Name())
	if err != nil {
		return false
	}
	open, err := s.Stat()
	return err == nil && os.SameFile(at, open)
}

// removeSegment removes a segment that nobody writes to.
func removeSegment(path string) bool {
	s, err := openSegment(path)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer s.Close()
	if err := syscall.Flock(int(s.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return false
	}
	return os.Remove(path) == nil
}

// scan calls found for every record from the known end on, up to the last one that is whole as far as its head and the
// file's size tell. Values are checked when they are read.
func (s *segment) scan(found func(address Key, offset int64, value int)) error {
	info, err := s.Stat()
	if err != nil {
		return err
	}
	var window [16 << 10]byte
	begin, n := int64(0), 0 // of the window in the file
	for {
		if s.size < begin || s.size+int64(recordHead) > begin+int64(n) {
			begin = s.size
			if n, err = s.ReadAt(window[:], begin); n < recordHead {
				if err == io.EOF {
					return nil
				}
				return err
			}
		}
		address, value, ok := parseHead(window[s.size-begin:][:recordHead])
		if next := s.size + recordSize(value); ok && next <= info.Size() {
			found(address, s.size, value)
			s.size = next
			continue
		}
		return nil
	}
}

// headDamaged reports whether the head after the last record is damaged, and not merely cut off by a crash.
func (s *segment) headDamaged() bool {
	var head [recordHead]byte
	if n, _ := s.ReadAt(head[:], s.size); n < recordHead {
		return false
	}
	_, _, ok := parseHead(head[:])
	return !ok
}

func parseHead(h []byte) (address Key, value int, ok bool) {
	sum := recordHead - 4
	if string(h[:len(recordMagic)]) != recordMagic ||
		crc32.Checksum(h[:sum], castagnoli) != binary.LittleEndian.Uint32(h[sum:]) {
		return address, 0, false
	}
	value = int(binary.LittleEndian.Uint32(h[len(recordMagic):]))
	return Key(h[len(recordMagic)+4 : sum]), value, value <= maxValueBytes
}

// append writes a record and returns its offset.
func (s *segment) append(address Key, value []byte) (int64, error) {
	b := make([]byte, 0, recordSize(len(value)))
	b = append(b, recordMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = append(b, address[:]...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = append(b, value...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(value, castagnoli))
	at := s.size
	if _, err := s.WriteAt(b, at); err != nil {
		s.Truncate(at) // best effort: a scan ends there anyway
		return 0, err
	}
	s.size += int64(len(b))
	return at, nil
}

var errDamaged = errors.New("damaged record")

// read returns the value of the record of an address.
func (s *segment) read(address Key, offset int64) ([]byte, error) {
	var h [recordHead]byte
	if _, err := s.ReadAt(h[:], offset); err != nil {
		return nil, err
	}
	have, n, ok := parseHead(h[:])
	if !ok || have != address {
		return nil, fmt.Errorf("%s: %w at byte %d", s.Name(), errDamaged, offset)
	}
	if info, err := s.Stat(); err != nil || offset+recordSize(n) > info.Size() {
		return nil, fmt.Errorf("%s: %w at byte %d: cut off", s.Name(), errDamaged, offset)
	}
	b := make([]byte, n+recordTail)
	if _, err := s.ReadAt(b, offset+int64(recordHead)); err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%s: %w at byte %d", s.Name(), errDamaged, offset)
	}
	s.touch()
	return b[:n:n], nil
}

// touch marks the file as used, now and then.
func (s *segment) touch() {
	const often = 60 // seconds
	now := time.Now()
	if last := s.used.Load(); now.Unix()-last >= often && s.used.CompareAndSwap(last, now.Unix()) {
		os.Chtimes(s.Name(), now, now) // fails where another user owns the file, which then looks less recently used
	}
}
