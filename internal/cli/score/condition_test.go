package score

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/curate"
	"assay/internal/oracle"
	"assay/internal/tokens"
)

// TestLeastClipTokens: a CLIP tokenizer never finds fewer tokens in a text than the lower bound from its words.
func TestLeastClipTokens(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "..", "..", "backbones", "tiny-clip", "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	tokenizer, err := tokens.New(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer tokenizer.Close()
	alphabet := []rune("aeTs 's't'LL 129½.,!?-_<|>é\u0301\u0300ü漢字🙂\t\n\u00a0\u3000ſK")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(40) {
			b.WriteRune(alphabet[rng.IntN(len(alphabet))])
		}
		ids, err := tokenizer.Encode(b.String(), true)
		if err != nil {
			t.Fatal(err)
		}
		if least := curate.MinClipTokens(b.String()); least > len(ids) {
			t.Fatalf("%q: at least %d tokens are promised, the tokenizer finds %d", b.String(), least, len(ids))
		}
	}
	for text, want := range map[string]int{"": 2, "make it red.": 6, "It's 12 o'clock!": 10} {
		if got := curate.MinClipTokens(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// TestPromptsThatAreCut: if a trainer's CLIP truncates the score, condition reports how many prompts, and what was
// counted.
func TestPromptsThatAreCut(t *testing.T) {
	dir := t.TempDir()
	picture := filepath.Join(oracle.Folders(t)[0], "images", "coffee.png")
	tokenizer := filepath.Join(oracle.Folders(t)[0], "..", "..", "backbones", "tiny-clip")
	score := " The image quality is three out of five."
	var b strings.Builder
	for _, words := range []int{10, 65, 66, 67, 200} {
		text := strings.TrimSpace(strings.Repeat("a ", words))
		fmt.Fprintf(&b, `{"source": %q, "edit": %q, "instruction": %q, "score01": 0.5}`+"\n", picture, picture, text)
	}
	table := filepath.Join(dir, "t.jsonl")
	if err := os.WriteFile(table, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		args []string
		want string
	}{
		// words, the full stop after them and the score's nine: 65 are 75 and fit
		{[]string{"--layouts", "diffusers"}, "3 of 5 prompts"},
		{[]string{"--layouts", "diffsynth"}, ""},
		{[]string{"--layouts", "diffsynth", "--tokenizer", tokenizer}, "4 of 5 prompts"}, // its words have several tokens
		{[]string{"--layouts", "magicbrush", "--template", "{word} of five: {instruction}"}, ""},
		{[]string{"--layouts", "magicbrush", "--template", "{instruction}" + score + " {level}"}, "3 of 5 prompts"},
	} {
		var stdout, stderr strings.Builder
		args := append([]string{"condition", "--in", table, "--out", filepath.Join(dir, fmt.Sprint(i))}, c.args...)
		if code := App.Run(context.Background(), args, &stdout, &stderr); code != 0 {
			t.Fatalf("%q: exit code %d: %s", c.args, code, stderr.String())
		}
		said := stderr.String()
		if (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
			t.Errorf("%q: got %q, want %q", c.args, said, c.want)
		}
	}
}
