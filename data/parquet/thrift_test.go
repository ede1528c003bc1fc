package parquet

import (
	"bytes"
	"testing"
)

func TestThriftLengths(t *testing.T) {
	for what, b := range map[string][]byte{
		"list":   {0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0},
		"text":   {0x18, 9, 'a', 0},
		"map":    {0x1b, 0xff, 0xff, 0x03, 0x88, 0},
		"open":   {0x15, 2},
		"nested": bytes.Repeat([]byte{0x1c}, 1000),
	} {
		t.Run(what, func(t *testing.T) {
			if checkThrift(b) == nil {
				t.Errorf("%s: got no error for % x, want one", what, b)
			}
		})
	}
	// a boolean, a list of two integers, a text, a struct of a double
	if err := checkThrift(
		[]byte{0x11, 0x19, 0x25, 2, 4, 0x18, 1, 'a', 0x1c, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	); err != nil {
		t.Error(err)
	}
}
