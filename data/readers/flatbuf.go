package readers

import (
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"
)

// checkSchema checks the lengths of the lists in an arrow schema message, for which the arrow library allocates
// memory before it reads them. A list cannot have more entries than its message has words. The slots are from arrow's
// Message.fbs and Schema.fbs. Big-endian streams are refused: the library would byte-swap them in place, in the
// mapped file. Like all flatbuffers code, it panics if an offset points outside the message.
func checkSchema(meta []byte) error {
	c := schemaChecker{left: len(meta) / 4}
	message := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	at := message.Offset(8)
	if at == 0 {
		return errors.New("damaged: a schema without fields")
	}
	var schema flatbuffers.Table
	message.Union(&schema, flatbuffers.UOffsetT(at))
	if order := schema.Offset(4); order != 0 && schema.GetInt16(schema.Pos+flatbuffers.UOffsetT(order)) != 0 {
		return errors.New("big-endian arrow streams are not supported: write it with datasets on a little-endian machine")
	}
	return c.lists(schema, 6, 8)
}

type schemaChecker struct{ left int } // words that lists may still use

// lists checks the fields in one slot of a table, with their children, and the metadata in another.
func (c *schemaChecker) lists(t flatbuffers.Table, fields, metadata flatbuffers.VOffsetT) error {
	for _, slot := range []flatbuffers.VOffsetT{fields, metadata} {
		at := flatbuffers.UOffsetT(t.Offset(slot))
		if at == 0 {
			continue
		}
		n := t.VectorLen(at)
		if c.left -= n; n < 0 || c.left < 0 {
			return errors.New("damaged: the schema has longer lists than it has bytes")
		}
		for i := 0; slot == fields && i < n; i++ {
			child := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Vector(at) + flatbuffers.UOffsetT(4*i))}
			if err := c.lists(child, 14, 16); err != nil {
				return err
			}
		}
	}
	return nil
}
