package lora

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// pythonJSON writes v (as encoding/json decodes it, with json.Number) byte for byte as Python's
// json.dumps(v, indent=2, sort_keys=True) does.
func pythonJSON(v any) ([]byte, error) {
	var w bytes.Buffer
	if err := writePython(&w, v, "\n"); err != nil {
		return nil, err
	}
	return w.Bytes(), nil
}

func writePython(w *bytes.Buffer, v any, newline string) error {
	inner := newline + "  "
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case string:
		quotePython(w, v)
	case int:
		w.WriteString(strconv.Itoa(v))
	case float64:
		w.WriteString(pythonFloat(v))
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") {
			w.WriteString(string(v))
			break
		}
		f, err := v.Float64()
		if err != nil {
			return err
		}
		w.WriteString(pythonFloat(f))
	case []any:
		if len(v) == 0 {
			w.WriteString("[]")
			break
		}
		w.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				w.WriteByte(',')
			}
			w.WriteString(inner)
			if err := writePython(w, x, inner); err != nil {
				return err
			}
		}
		w.WriteString(newline + "]")
	case map[string]any:
		if len(v) == 0 {
			w.WriteString("{}")
			break
		}
		w.WriteByte('{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				w.WriteByte(',')
			}
			w.WriteString(inner)
			quotePython(w, k)
			w.WriteString(": ")
			if err := writePython(w, v[k], inner); err != nil {
				return err
			}
		}
		w.WriteString(newline + "}")
	default:
		return fmt.Errorf("a %T has no JSON form", v)
	}
	return nil
}

// pythonFloat is Python's repr: shortest digits that read back the same, with an exponent below 1e-4 and from 1e16 on.
func pythonFloat(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quotePython writes a string in ASCII only, as ensure_ascii does.
func quotePython(w *bytes.Buffer, s string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	w.WriteByte('"')
	for _, r := range s {
		switch e, ok := short[r]; {
		case ok:
			w.WriteString(e)
		case r >= 0x20 && r < 0x7f:
			w.WriteRune(r)
		case r >= 0x10000:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(w, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(w, `\u%04x`, r)
		}
	}
	w.WriteByte('"')
}
