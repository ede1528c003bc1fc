package text

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"assay/internal/long"
	"assay/internal/oracle"
)

// TestDecodeIsTheLibrarys: random ids decode to the same texts as in the tokenizers library, which returns nothing for
// texts with a zero byte.
func TestDecodeIsTheLibrarys(t *testing.T) {
	long.Test(t)
	oracle.Each(t, func(t *testing.T, folder string) {
		for _, family := range []string{"llavanext", "qwen2_5_vl", "qwen2_vl", "qwen3_vl"} {
			p, err := Open(filepath.Join(folder, family, "backbone"), "", 1<<20, WithOwnToken())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			r := rand.New(rand.NewPCG(1, 2))
			whole := 0
			for range 2000 {
				ids, same := make([]int64, r.IntN(12)), []uint32{}
				for i := range ids {
					ids[i] = int64(r.IntN(int(p.handle.Library().VocabSize()) + 5))
					same = append(same, uint32(ids[i]))
				}
				got, err := p.Decode(ids)
				if err != nil {
					t.Fatal(err)
				}
				want := p.handle.Library().Decode(same, true)
				if strings.ContainsRune(got, 0) { // the library returns nothing for these
					continue
				}
				if whole++; got != want {
					t.Fatalf("%s: %v becomes %q, want %q", family, ids, got, want)
				}
			}
			if whole < 1000 {
				t.Errorf("only %d texts of 2,000 are without a zero byte", whole)
			}
		}
	})
}

// TestLossy: ill-formed UTF-8 is replaced as the Unicode standard recommends; golang.org/x/text does the same.
func TestLossy(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	decoder := unicode.UTF8.NewDecoder()
	leads := []byte{0x41, 0x80, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xA0, 0xE1, 0xED, 0x9F, 0xEF,
		0xF0, 0x90, 0xF4, 0x8F, 0xF5, 0xFF}
	for range 20000 {
		raw := make([]byte, r.IntN(9))
		for i := range raw {
			raw[i] = leads[r.IntN(len(leads))]
		}
		want, err := decoder.Bytes(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := lossy(raw); got != string(want) {
			t.Fatalf("% x becomes %q, want %q", raw, got, want)
		}
	}
}

// TestSentencePieceDecoder: the decoder of Llama's and Mistral's tokenizers.
func TestSentencePieceDecoder(t *testing.T) {
	steps, err := decoderSteps([]byte(`{"type": "Sequence", "decoders": [
		{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
		{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for want, tokens := range map[string][]string{
		"a cat":         {"▁a", "▁c", "at"},
		" a":            {"▁▁a"},
		"é!":            {"<0xC3>", "<0xA9>", "!"},
		"\ufffd\ufffdx": {"<0xC3>", "<0xC3>", "x"},
	} {
		for _, step := range steps {
			tokens = step(tokens)
		}
		if got := strings.Join(tokens, ""); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := decoderSteps([]byte(`{"type": "WordPiece"}`)); err == nil || !strings.Contains(err.Error(), "WordPiece") {
		t.Errorf("an unknown decoder: %v", err)
	}
}
