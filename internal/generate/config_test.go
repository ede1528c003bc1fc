package generate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/chat"
)

// TestConfig: generation_config.json is obeyed, or refused with an error that names the unknown key.
func TestConfig(t *testing.T) {
	for _, c := range []struct {
		file string
		want Config
		err  string
	}{
		{`{}`, Config{Temperature: 1, TopK: 50, TopP: 1, RepetitionPenalty: 1}, ""},
		{`{"do_sample": true, "temperature": 0.1, "top_k": 1, "top_p": 0.001, "repetition_penalty": 1.05,
			"eos_token_id": [1, 2],
			"pad_token_id": 0, "bos_token_id": 3, "transformers_version": "4.37.0", "max_new_tokens": 2048}`,
			Config{Sample: true, Temperature: 0.1, TopK: 1, TopP: 0.001, RepetitionPenalty: 1.05, MaxNewTokens: 2048,
				End: []int64{1, 2}}, ""},
		{`{"eos_token_id": 7, "max_length": 30, "top_k": null, "num_beams": 1, "cache_implementation": "static"}`,
			Config{Temperature: 1, TopK: 50, TopP: 1, RepetitionPenalty: 1, MaxLength: 30, End: []int64{7}}, ""},
		{file: `{"num_beams": 4}`, err: "num_beams"},
		{file: `{"no_repeat_ngram_size": 3}`, err: "no_repeat_ngram_size"},
		{file: `{"min_p": 0.1}`, err: "min_p"},
		{file: `{"suppress_tokens": [1]}`, err: "suppress_tokens"},
		{file: `{"nobody_knows": 1}`, err: "nobody_knows"},
		{file: `{"temperature": 0.0}`, err: "temperature"},
		{file: `{"eos_token_id": "</s>"}`, err: "eos_token_id"},
		{file: `{"cache_implementation": "quantized"}`, err: "cache_implementation"},
	} {
		t.Run(c.file, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readConfig(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: got error %v, want one with %q", c.file, err, c.err)
				}
				return
			}
			if err != nil {
				t.Errorf("%s: got error %v, want none", c.file, err)
				return
			}
			if !slices.Equal(got.End, c.want.End) {
				t.Errorf("%s: got end tokens %v, want %v", c.file, got.End, c.want.End)
			}
			got.End, c.want.End = nil, nil
			if a, b := *got, c.want; a.Sample != b.Sample || a.Temperature != b.Temperature || a.TopK != b.TopK ||
				a.TopP != b.TopP || a.RepetitionPenalty != b.RepetitionPenalty || a.MaxNewTokens != b.MaxNewTokens ||
				a.MaxLength != b.MaxLength {
				t.Errorf("%s: %+v, want %+v", c.file, a, b)
			}
		})
	}
}

// TestMost: the request, the checkpoint and the model's context limit the length of an answer.
func TestMost(t *testing.T) {
	for _, c := range []struct {
		config       Config
		asked        int
		prompt, room int
		want         int
	}{
		{Config{}, 0, 10, 1000, DefaultMaxNewTokens},
		{Config{}, 0, 10, 100, 100},
		{Config{MaxNewTokens: 7}, 0, 10, 1000, 7},
		{Config{MaxNewTokens: 7}, 9, 10, 1000, 9},
		{Config{MaxLength: 30}, 0, 10, 1000, 20},
		{Config{MaxLength: 30}, 50, 10, 1000, 50},
	} {
		t.Run(fmt.Sprintf("%d asked", c.asked), func(t *testing.T) {
			c.config.Temperature, c.config.TopP, c.config.RepetitionPenalty = 1, 1, 1
			r, err := c.config.with(chat.Options{MaxNewTokens: c.asked})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.most(c.prompt, c.room); got != c.want {
				t.Errorf("%+v: %d tokens, want %d", c, got, c.want)
			}
		})
	}
}
