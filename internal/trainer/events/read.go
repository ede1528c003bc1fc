package events

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"google.golang.org/protobuf/encoding/protowire"
)

// Event is the scalars of one step, at a time in seconds since 1970.
type Event struct {
	Step    int64
	Wall    float64
	Scalars []Scalar
}

// longest is the largest plausible size of a record, in bytes.
const longest = 1 << 26

// Read calls do for the events of a file starting at byte at, and returns the end of the last event for which do
// returned true. The file may still grow: an incomplete record is left for the next call.
func Read(path string, at int64, do func(e Event) bool) (next int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return at, err
	}
	defer f.Close()
	r := io.NewSectionReader(f, at, math.MaxInt64-at)
	for {
		record, err := readFrame(r)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("%s, byte %d: %w", path, at, err)
		}
		e, err := parseEvent(record)
		if err != nil {
			return at, fmt.Errorf("%s, byte %d: %w", path, at, err)
		}
		if len(e.Scalars) > 0 && !do(e) {
			return at, nil
		}
		at += int64(len(record)) + 16
	}
}

// readFrame reads a record and its checksums. io.EOF and io.ErrUnexpectedEOF mean that it is incomplete.
func readFrame(r io.Reader) ([]byte, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint64(head[:])
	if masked(head[:8]) != binary.LittleEndian.Uint32(head[8:]) || size > longest {
		return nil, fmt.Errorf("the length of a record is damaged")
	}
	body := make([]byte, size+4)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	if masked(body[:size]) != binary.LittleEndian.Uint32(body[size:]) {
		return nil, fmt.Errorf("a record is damaged")
	}
	return body[:size], nil
}

// parseEvent reads what scalarEvent writes. It skips other fields.
func parseEvent(b []byte) (e Event, err error) {
	err = eachField(b, func(field protowire.Number, number uint64, text []byte) error {
		switch field {
		case 1:
			e.Wall = math.Float64frombits(number)
		case 2:
			e.Step = int64(number)
		case 5:
			return eachField(text, func(_ protowire.Number, _ uint64, value []byte) error {
				s, err := parseScalar(value)
				e.Scalars = append(e.Scalars, s)
				return err
			})
		}
		return nil
	})
	return e, err
}

func parseScalar(b []byte) (s Scalar, err error) {
	err = eachField(b, func(field protowire.Number, number uint64, text []byte) error {
		switch field {
		case 1:
			s.Tag = string(text)
		case 2:
			s.Value = float64(math.Float32frombits(uint32(number)))
		}
		return nil
	})
	return s, err
}

// eachField calls do for each field of a message, with the bits of a number or the bytes of a string or message.
func eachField(b []byte, do func(field protowire.Number, number uint64, text []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var number uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(b)
			number = uint64(bits)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := do(field, number, text); err != nil {
			return err
		}
	}
	return nil
}
