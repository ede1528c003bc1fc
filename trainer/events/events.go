// Package events writes TensorBoard event files: TFRecord frames around Event protocol buffers.
//
// A frame is the length of the record (uint64, little-endian), the masked CRC-32C of those 8 bytes, the record, and its
// masked CRC-32C (tensorflow/core/lib/io/record_writer.h). The messages are tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto; only the few fields that scalars need are encoded.
package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// Scalar is one value of one curve.
type Scalar struct {
	Tag   string // "loss/train": what stands before the slash groups the curves
	Value float64
}

// Writer appends events to one file.
type Writer struct {
	file *os.File
	size int64
}

// Open creates the file, or cuts an existing one back to size bytes and goes on after them. wall is the time of the file's
// head, in seconds since 1970. TensorBoard looks for files with "tfevents" in their names.
func Open(path string, size int64, wall float64) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f, size: size}
	info, err := f.Stat()
	if err == nil && info.Size() < size {
		err = fmt.Errorf("%s has %d bytes, %d were expected", path, info.Size(), size)
	}
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil && size == 0 {
		err = w.write(versionEvent(wall))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// Size is the number of bytes written, frames and all.
func (w *Writer) Size() int64 { return w.size }

// Add writes one event with scalars of a step.
func (w *Writer) Add(step int64, wall float64, scalars ...Scalar) error {
	return w.write(scalarEvent(step, wall, scalars))
}

// Sync makes what was written survive a loss of power.
func (w *Writer) Sync() error { return w.file.Sync() }

// Close ends the file.
func (w *Writer) Close() error { return w.file.Close() }

func (w *Writer) write(record []byte) error {
	n, err := w.file.WriteAt(frame(record), w.size)
	if err != nil {
		return err
	}
	w.size += int64(n)
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked rotates and shifts a CRC, so that the CRC of data that hold CRCs stays a good one.
func masked(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

func frame(record []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(record)))
	out = binary.LittleEndian.AppendUint32(out, masked(out))
	out = append(out, record...)
	return binary.LittleEndian.AppendUint32(out, masked(record))
}

// Event: wall_time 1 (double), step 2 (int64), file_version 3 (string), summary 5 (Summary).
func versionEvent(wall float64) []byte {
	b := appendDouble(nil, 1, wall)
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	return protowire.AppendString(b, "brain.Event:2")
}

// Summary: value 1 (repeated Value). Value: tag 1 (string), simple_value 2 (float).
func scalarEvent(step int64, wall float64, scalars []Scalar) []byte {
	var summary []byte
	for _, s := range scalars {
		var v []byte
		v = protowire.AppendTag(v, 1, protowire.BytesType)
		v = protowire.AppendString(v, s.Tag)
		v = protowire.AppendTag(v, 2, protowire.Fixed32Type)
		v = protowire.AppendFixed32(v, math.Float32bits(float32(s.Value)))
		summary = protowire.AppendTag(summary, 1, protowire.BytesType)
		summary = protowire.AppendBytes(summary, v)
	}
	b := appendDouble(nil, 1, wall)
	if step != 0 {
		b = protowire.AppendTag(b, 2, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(step))
	}
	b = protowire.AppendTag(b, 5, protowire.BytesType)
	return protowire.AppendBytes(b, summary)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	b = protowire.AppendTag(b, field, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, math.Float64bits(v))
}
