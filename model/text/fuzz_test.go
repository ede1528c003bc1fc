package text

import (
	"encoding/json"
	"testing"

	"assay/internal/fuzzing"
	"assay/internal/testfile"
)

// FuzzTemplate: the source of a chat template is compiled or refused.
func FuzzTemplate(f *testing.F) {
	x := fuzzing.New(f)
	var cases []struct{ Template string }
	testfile.ReadJSON(f, "testdata/templates.json", &cases)
	for _, c := range cases {
		if len(c.Template) < 1000 {
			x.Add([]byte(c.Template))
		}
	}
	x.Add(
		[]byte(
			"{% for m in messages %}{{ m['role'] | upper }}: {% generation %}{{ m.content[-1].text }}{% endgeneration %}{% " +
				"endfor %}",
		),
	)
	x.Run(func(t testing.TB, raw []byte) {
		source := string(raw)
		fuzzing.Bounded(t, 64<<20+4096*uint64(len(source)), func() {
			_, _ = compileTemplate(source, "fuzz", nil)
		})
	})
}

// FuzzTokenizerFile: a tokenizer.json gets the score token or is refused, and a chat template in its entry is found.
func FuzzTokenizerFile(f *testing.F) {
	x := fuzzing.New(f)
	x.Add(
		[]byte(
			`{"version": "1.0", "added_tokens": [{"id": 3, "content": "[SCORE]", "special": false}], "model": {"type": "BPE"}}`),
	)
	x.Add([]byte(`{"added_tokens": [{"id": 9223372036854775807, "content": "<s>", "special": true}]}`))
	x.Add([]byte(`[{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]`))
	x.Add([]byte(`{"default": "a", "other": "b"}`))
	x.Run(func(t testing.TB, raw []byte) {
		fuzzing.Bounded(t, 16<<20+1024*uint64(len(raw)), func() {
			_, _ = pickTemplate(raw)
			a := tokenizer{scoreToken: "[SCORE]", added: map[string]addedToken{}}
			once, err := a.addScoreToken(raw)
			if err != nil {
				return
			}
			b := tokenizer{scoreToken: "[SCORE]", added: map[string]addedToken{}}
			twice, err := b.addScoreToken(once)
			if err != nil {
				t.Fatalf("what was written is not read: %v", err)
			}
			if string(once) != string(twice) || !json.Valid(once) {
				t.Errorf("adding the token again changes the file:\n%s\n%s", once, twice)
			}
		})
	})
}
