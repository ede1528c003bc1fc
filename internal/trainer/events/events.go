// Package events writes TensorBoard event files: TFRecord frames around Event protocol buffers.
//
// A frame is the length of the record (uint64, little-endian), the masked CRC-32C of those 8 bytes, the record, and its
// masked CRC-32C (tensorflow/core/lib/io/record_writer.h). The messages are tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto; only the few fields that scalars need are encoded.
package events

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/journal"
)

// Scalar is one value of one curve.
type Scalar struct {
	Tag   string // "loss/train": curves are grouped by the part before the slash
	Value float64
}

// Writer appends events to one file.
type Writer struct{ *journal.File }

// Open creates the file, or truncates an existing one to size bytes and appends. wall is the time in the file's
// header, in seconds since 1970. TensorBoard looks for files with "tfevents" in their names.
func Open(path string, size int64, wall float64) (*Writer, error) {
	f, err := journal.OpenFile(path, size)
	if err != nil {
		return nil, err
	}
	if size == 0 {
		if _, err := f.Write(frame(versionEvent(wall))); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &Writer{f}, nil
}

// Add writes one event with scalars of a step.
func (w *Writer) Add(step int64, wall float64, scalars ...Scalar) error {
	_, err := w.Write(frame(scalarEvent(step, wall, scalars)))
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked rotates a CRC and adds a constant, so that the CRC of data that contains CRCs stays useful.
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
