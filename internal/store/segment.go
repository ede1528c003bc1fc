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

// segment is one file of a bucket, a sequence of records, little-endian:
//
//	"asr1", length of the value (uint32), address (32 bytes), CRC-32C of these
//	value, CRC-32C of it
//
// Only the process that holds its lock appends to it. A truncated record is removed, with everything after it, before
// the next one is written.
type segment struct {
	*os.File
	size int64        // of the records known to this process
	used atomic.Int64 // Unix time in seconds at which the file was last marked as used
}

const (
	recordMagic   = "asr1"
	recordHead    = len(recordMagic) + 4 + len(Key{}) + 4
	recordTail    = 4
	segmentExt    = ".segment"
	maxValueBytes = 1 << 31 // largest value
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func recordSize(value int) int64 { return int64(recordHead) + int64(value) + recordTail }

// openSegment opens a segment, read-only if writing is not permitted.
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

// newSegment creates an empty segment that is locked by this process.
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
	s.lock() // without locks in the file system, no process appends to another's segment
	return s, nil
}

// lock gets the exclusive right to append, until the file is closed; false if that is not possible.
func (s *segment) lock() bool {
	return syscall.Flock(int(s.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func (s *segment) unlock() { syscall.Flock(int(s.Fd()), syscall.LOCK_UN) }

// exists reports whether the file with its name is still this segment.
func (s *segment) exists() bool {
	at, err := os.Stat(s.Name())
	if err != nil {
		return false
	}
	open, err := s.Stat()
	return err == nil && os.SameFile(at, open)
}

// removeSegment removes a segment unless a process is writing to it.
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

// scan calls found for every record after the known end, up to the last one that is complete according to its head
// and the file size. Values are checked when they are read.
func (s *segment) scan(found func(address Key, offset int64, value int)) error {
	info, err := s.Stat()
	if err != nil {
		return err
	}
	var window [16 << 10]byte
	begin, n := int64(0), 0 // offset and size of the window in the file
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

// headDamaged reports whether the head after the last record is damaged, and not just truncated by a crash.
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
		s.Truncate(at) // best effort: scans end there anyway
		return 0, err
	}
	s.size += int64(len(b))
	return at, nil
}

var errDamaged = errors.New("damaged record")

// read returns the value of the record at an offset, which must have this address.
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
		return nil, fmt.Errorf("%s: %w at byte %d: truncated", s.Name(), errDamaged, offset)
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

// touch marks the file as used, at most once a minute.
func (s *segment) touch() {
	const often = 60 // seconds
	now := time.Now()
	if last := s.used.Load(); now.Unix()-last >= often && s.used.CompareAndSwap(last, now.Unix()) {
		os.Chtimes(s.Name(), now, now) // fails if another user owns the file, which then looks less recently used
	}
}
