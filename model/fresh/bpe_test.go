package fresh

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/daulet/tokenizers"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Tokens, merges and encodings (with the written tokenizer.json) equal those of the tokenizers library's own trainer
// (tools/oracle/bpe.py).
func TestBPEAsTokenizersLibrary(t *testing.T) {
	corpus, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/bpe.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Family    string
		Size      int
		Tokens    []string
		Merges    [][2]string
		Encodings []struct {
			Text string
			IDs  []uint32
		}
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		f := families[c.Family]
		b, err := f.train([]string{string(corpus) + strings.Repeat("cafe\u0301 cafe\u0301 ", 20)}, c.Size+len(f.special))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.Tokens, append([]string{}, b.Tokens[256:]...)); d != "" {
			t.Errorf("%s, size %d: tokens (-want +got):\n%s", c.Family, c.Size, d)
		}
		if d := cmp.Diff(c.Merges, b.merges()); d != "" {
			t.Errorf("%s, size %d: merges (-want +got):\n%s", c.Family, c.Size, d)
		}
		file, err := json.Marshal(b.tokenizerJSON())
		if err != nil {
			t.Fatal(err)
		}
		tokenizer, err := tokenizers.FromBytes(file)
		if err != nil {
			t.Fatal(err)
		}
		defer tokenizer.Close()
		for _, e := range c.Encodings {
			got, _ := tokenizer.Encode(e.Text, true)
			if d := cmp.Diff(e.IDs, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s, size %d: %q (-want +got):\n%s", c.Family, c.Size, e.Text, d)
			}
		}
	}
}

func TestBPELimits(t *testing.T) {
	if _, err := trainBPE(nil, llavaNext.words, "", 255); err == nil {
		t.Error("255 tokens were accepted")
	}
	b, err := trainBPE([]string{"ab ab"}, llavaNext.words, "", 1000) // runs out of pairs: ab, then " ab"
	if err != nil || len(b.Tokens) != 258 || len(b.Merges) != 2 {
		t.Errorf("%d tokens, %d merges, %v", len(b.Tokens), len(b.Merges), err)
	}
}
