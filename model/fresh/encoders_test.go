package fresh

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daulet/tokenizers"
)

var testCLIP = CLIPSizes{
	Picture:    32,
	Patch:      8,
	Vision:     Transformer{16, 2, 2, 32},
	Text:       Transformer{8, 1, 2, 16},
	Projection: 12,
	Context:    20,
	Vocab:      700,
}

// The tokenizers library reads the tokenizer: frequent words are one token with CLIP's ending, and unseen text is
// recovered from its bytes.
func TestCLIPTokenizer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "clip")
	if err := CreateCLIP(dir, testCLIP, strings.Repeat("a photo of Two red circles\n", 3), 1); err != nil {
		t.Fatal(err)
	}
	tokenizer, err := tokenizers.FromFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer tokenizer.Close()
	ids, tokens := tokenizer.Encode("A photo of  two RED circles", true)
	want := []string{
		"<|startoftext|>",
		"a</w>",
		"photo</w>",
		"of</w>",
		"two</w>",
		"red</w>",
		"circles</w>",
		"<|endoftext|>",
	}
	if !slices.Equal(tokens, want) {
		t.Errorf("tokens %q, want %q", tokens, want)
	}
	size := int(tokenizer.VocabSize())
	if int(ids[0]) != size-2 || int(ids[len(ids)-1]) != size-1 || size > testCLIP.Vocab {
		t.Errorf("ids %v of %d", ids, size)
	}
	if ids, tokens = tokenizer.Encode("zürich, 12!", false); slices.Contains(tokens, "<|endoftext|>") {
		t.Errorf("unknown bytes: %q", tokens)
	}
	if back := strings.ReplaceAll(tokenizer.Decode(ids, true), "</w>", " "); back != "zürich , 1 2 ! " {
		t.Errorf("decoded %q", back)
	}
}

// The same arguments produce the same bytes, others do not, and invalid sizes are refused before anything is written.
func TestCreateEncoders(t *testing.T) {
	dino := DINOSizes{Picture: 32, Patch: 8, Transformer: Transformer{16, 2, 2, 32}}
	for name, create := range map[string]func(dir string, seed uint64) error{
		"clip": func(dir string, seed uint64) error { return CreateCLIP(dir, testCLIP, "a photo of two circles", seed) },
		"dino": func(dir string, seed uint64) error { return CreateDINO(dir, dino, seed) },
	} {
		var weights []string
		for _, seed := range []uint64{5, 5, 6} {
			dir := filepath.Join(t.TempDir(), "new")
			if err := create(dir, seed); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			weights = append(weights, string(raw))
		}
		if weights[0] != weights[1] || weights[1] == weights[2] {
			t.Errorf("%s: equal seeds give equal bytes: %v, other ones too: %v", name, weights[0] == weights[1],
				weights[1] == weights[2])
		}
	}
	dir := filepath.Join(t.TempDir(), "bad")
	wrong := testCLIP
	wrong.Patch = 7
	few := testCLIP
	few.Vocab = 500
	uneven := dino
	uneven.Intermediate = 40
	for what, err := range map[string]error{
		"patch":      CreateCLIP(dir, wrong, "a", 1),
		"vocabulary": CreateCLIP(dir, few, "a", 1),
		"ratio":      CreateDINO(dir, uneven, 1),
	} {
		if err == nil {
			t.Errorf("an invalid %s was accepted", what)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written")
	}
}
