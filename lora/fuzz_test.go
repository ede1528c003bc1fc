package lora

import (
	"bytes"
	"testing"

	"assay/internal/fuzzing"
)

// FuzzConfig: an adapter_config.json is read or refused; what was read is written and read back as the same file.
func FuzzConfig(f *testing.F) {
	x := fuzzing.New(f)
	x.Add(fuzzing.Files(f, 4<<10, "testdata/*/adapter_config.json")...)
	x.Add(
		[]byte(
			`{"r": 8, "lora_alpha": 16.5, "target_modules": ["q_proj"], "rank_pattern": {"a": 2, "a": 3}, ` +
				`"layers_to_transform": 3}`,
		),
	)
	x.Run(func(t testing.TB, raw []byte) {
		fuzzing.Bounded(t, 16<<20+1024*uint64(len(raw)), func() {
			c, err := parseConfig(raw)
			if err != nil {
				return
			}
			once, err := c.Encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := parseConfig(once)
			if err != nil {
				t.Fatalf("reading what was written: got error %v, want none", err)
			}
			if twice, err := again.Encode(); err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("read and written again (%v): got\n%s\nwant\n%s", err, twice, once)
			}
		})
	})
}
