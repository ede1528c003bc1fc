package fresh

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/daulet/tokenizers"
	"github.com/google/go-cmp/cmp"
)

// Tokens, merges and, through the written tokenizer.json, encodings are those of the tokenizers library's own trainer
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
		b, err := TrainBPE([]string{string(corpus)}, llavaNext.words, c.Size)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.Tokens, append([]string{}, b.Tokens[256:]...)); d != "" {
			t.Errorf("size %d: tokens (-want +got):\n%s", c.Size, d)
		}
		if d := cmp.Diff(c.Merges, b.merges()); d != "" {
			t.Errorf("size %d: merges (-want +got):\n%s", c.Size, d)
		}
		file, err := json.Marshal((&vocabulary{b, &llavaNext, 0}).tokenizerJSON())
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
			if d := cmp.Diff(e.IDs, got); d != "" {
				t.Errorf("size %d: %q (-want +got):\n%s", c.Size, e.Text, d)
			}
		}
	}
}

func TestBPELimits(t *testing.T) {
	if _, err := TrainBPE(nil, llavaNext.words, 255); err == nil {
		t.Error("255 tokens were accepted")
	}
	b, err := TrainBPE([]string{"ab ab"}, llavaNext.words, 1000) // runs out of pairs: ab, then " ab"
	if err != nil || len(b.Tokens) != 258 || len(b.Merges) != 2 {
		t.Errorf("%d tokens, %d merges, %v", len(b.Tokens), len(b.Merges), err)
	}
}
