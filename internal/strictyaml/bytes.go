package strictyaml

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a number of bytes, written plain or with a unit (512MiB, 2 GB). It can be used in YAML files and, as a
// pflag.Value, in flags.
type Bytes int64

var units = []struct {
	name  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"TB", 1e12}, {"B", 1}}

// Set parses a size.
func (b *Bytes) Set(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		*b = Bytes(n)
		return nil
	}
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err == nil && f >= 0 && f*u.bytes < math.MaxInt64 {
				*b = Bytes(f * u.bytes)
				return nil
			}
		}
	}
	return fmt.Errorf("want a size like 500MiB or 10GiB, not %q", text)
}

// UnmarshalValue implements Unmarshaler.
func (b *Bytes) UnmarshalValue(v any) error {
	if n, ok := Int(v); ok {
		return b.Set(strconv.FormatInt(n, 10))
	}
	return b.Set(fmt.Sprint(v))
}

// String is the shortest text without a fraction that Set parses to the same number.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if unit := Bytes(units[i].bytes); b > 0 && b%unit == 0 {
			return fmt.Sprintf("%d%s", b/unit, units[i].name)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalYAML writes what UnmarshalValue reads.
func (b Bytes) MarshalYAML() (any, error) {
	if text := b.String(); strings.HasSuffix(text, "B") {
		return text, nil
	}
	return int64(b), nil
}

// Type is its name in help texts.
func (b Bytes) Type() string { return "bytes" }
