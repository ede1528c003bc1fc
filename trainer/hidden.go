package trainer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
)

// Hidden computes hidden states at the score token: one of the backbone's width for each example.
type Hidden interface {
	Hidden(ctx context.Context, batch []Example) ([][]float32, error)
	Close() error
}

// hiddenCache is a file of hidden states, found by a hash of the example. It is only appended to, in records of one size:
//
//	head:   "assayhs1", width (uint32), SHA-256 of what the states depend on besides the example
//	record: SHA-256 of the example, width float32, CRC-32C of both; little-endian
//
// A record that a crash cut off is dropped at the next opening.
type hiddenCache struct {
	file  *os.File
	width int
	at    map[[32]byte]int64 // offset of the record
	end   int64
}

const (
	hiddenMagic = "assayhs1"
	hiddenHead  = len(hiddenMagic) + 4 + 32
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// openHidden opens or makes the cache. One of another width or for another backbone is begun anew.
func openHidden(path string, width int, fingerprint map[string]string) (*hiddenCache, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	c := &hiddenCache{file: f, width: width, at: map[[32]byte]int64{}}
	if err := c.load(fingerprint); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return c, nil
}

func (c *hiddenCache) load(fingerprint map[string]string) error {
	text, err := json.Marshal(fingerprint) // keys sorted
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	want := append(binary.LittleEndian.AppendUint32([]byte(hiddenMagic), uint32(c.width)), sum[:]...)
	head := make([]byte, hiddenHead)
	_, err = io.ReadFull(c.file, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if !bytes.Equal(head, want) {
		if err := c.file.Truncate(0); err != nil {
			return err
		}
		_, err := c.file.WriteAt(want, 0)
		c.end = int64(hiddenHead)
		return err
	}
	c.end = int64(hiddenHead)
	for record := make([]byte, c.size()); ; c.end += c.size() {
		if _, err := c.file.ReadAt(record, c.end); err == io.EOF || err == nil && !intact(record) {
			return c.file.Truncate(c.end)
		} else if err != nil {
			return err
		}
		c.at[[32]byte(record)] = c.end
	}
}

func (c *hiddenCache) size() int64 { return 32 + 4*int64(c.width) + 4 }

func intact(record []byte) bool {
	n := len(record) - 4
	return crc32.Checksum(record[:n], crcTable) == binary.LittleEndian.Uint32(record[n:])
}

// get reads the state of an example; nil if it is not there.
func (c *hiddenCache) get(key [32]byte) ([]float32, error) {
	at, ok := c.at[key]
	if !ok {
		return nil, nil
	}
	record := make([]byte, c.size())
	if _, err := c.file.ReadAt(record, at); err != nil {
		return nil, err
	}
	if !intact(record) {
		return nil, fmt.Errorf("%s is damaged at byte %d: remove it, it is computed again", c.file.Name(), at)
	}
	out := make([]float32, c.width)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(record[32+4*i:]))
	}
	return out, nil
}

// put appends the state of an example.
func (c *hiddenCache) put(key [32]byte, state []float32) error {
	if len(state) != c.width {
		return fmt.Errorf("a hidden state has %d values, the head wants %d", len(state), c.width)
	}
	record := append([]byte{}, key[:]...)
	for _, v := range state {
		record = binary.LittleEndian.AppendUint32(record, math.Float32bits(v))
	}
	record = binary.LittleEndian.AppendUint32(record, crc32.Checksum(record, crcTable))
	if _, err := c.file.WriteAt(record, c.end); err != nil {
		return fmt.Errorf("writing %s: %w", c.file.Name(), err)
	}
	c.at[key] = c.end
	c.end += c.size()
	return nil
}

func (c *hiddenCache) close() error { return c.file.Close() }

// hiddenKey hashes what a hidden state depends on: instruction, pictures and templates.
func hiddenKey(e *Example) ([32]byte, error) {
	text, err := json.Marshal([]any{e.Base, e.Row.Instruction, e.Row.Source, e.Row.Edit, e.Question, e.Answer, e.Augment})
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(text), nil
}
