package text

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"assay/internal/testfile"

	"github.com/google/go-cmp/cmp"
)

const (
	llava = "../../testdata/oracle/llavanext"
	qwen  = "../../testdata/oracle/qwen2_5_vl"
)

// family has the location of a family's fixtures and the format of its turns.
type family struct {
	dir, placeholder, endOfTurn string
	cases                       []string
}

var families = []family{
	{llava, "<image>", "<|eot_id|>", []string{"cases.json", "cases_adiee.json"}},
	{qwen, "<|image_pad|>", "<|im_end|>", []string{"cases.json", "cases_frames.json"}},
}

type oracleCase struct {
	Question, Prompt, Answer string
	Score                    int64   `json:"score_token_id"`
	Counts                   []int   `json:"image_tokens"`
	IDs                      []int64 `json:"input_ids"`
	AnswerStart              int     `json:"answer_start"`
	ScoreIndex               int     `json:"score_index"`
}

// Prompts, ids and positions of every reference case equal those of transformers.
func TestOracle(t *testing.T) {
	for _, f := range families {
		for _, file := range f.cases {
			var cases []oracleCase
			testfile.ReadJSON(t, filepath.Join(f.dir, file), &cases)
			p := open(t, f.dir, cases[0].Score)
			for i, c := range cases {
				prompt, err := p.Prompt(len(c.Counts), c.Question)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(c.Prompt, prompt); d != "" {
					t.Errorf("%s case %d: prompt (-want +got):\n%s", file, i, d)
				}
				got, err := p.Encode(prompt, c.Answer, f.endOfTurn, f.placeholder, c.Counts)
				if err != nil {
					t.Fatal(err)
				}
				want := Tokens{c.IDs, c.AnswerStart, c.ScoreIndex, pictureStarts(t, p, f, c)}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s case %d: tokens (-want +got):\n%s", file, i, d)
				}
			}
		}
	}
}

// pictureStarts finds the runs of placeholders in the reference ids.
func pictureStarts(t *testing.T, p *Processor, f family, c oracleCase) []int {
	picture, err := p.ID(f.placeholder)
	if err != nil {
		t.Fatal(err)
	}
	var starts []int
	for i, k := 0, 0; i < len(c.IDs); i++ {
		if c.IDs[i] == int64(picture) {
			starts = append(starts, i)
			i += c.Counts[k] - 1
			k++
		}
	}
	return starts
}

// Repeating a placeholder's id equals tokenising the repeated text.
func TestPlaceholdersOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, f := range families {
		p := open(t, f.dir, 100000)
		for range 40 {
			counts := make([]int, 1+random.IntN(3))
			for i := range counts {
				counts[i] = 1 + random.IntN(300)
			}
			prompt, err := p.Prompt(len(counts), strings.Repeat(" a? 12\n", random.IntN(4))+"End")
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Encode(prompt, "It is [SCORE].", f.endOfTurn, f.placeholder, counts)
			if err != nil {
				t.Fatal(err)
			}
			pieces := strings.Split(prompt, f.placeholder)
			text := pieces[0]
			for i, n := range counts {
				text += strings.Repeat(f.placeholder, n) + pieces[i+1]
			}
			ids, err := p.handle.Encode(text+"It is [SCORE]."+f.endOfTurn, true)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]int64, len(ids))
			for i, id := range ids {
				if want[i] = int64(id); id == p.scoreInTokenizer {
					want[i] = 100000
				}
			}
			if d := cmp.Diff(want, got.IDs); d != "" {
				t.Fatalf("counts %v (-want +got):\n%s", counts, d)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	p := open(t, llava, 759)
	for _, question := range []string{"a <image> b", "rate [SCORE]", "x<|eot_id|>", "<pad>", "\xff", "a\x00b"} {
		if _, err := p.Prompt(1, question); err == nil {
			t.Errorf("question %q was not refused", question)
		}
	}
	// A template that continues the question without a separator: together they form a special token.
	joined, err := Open(llava+"/backbone", "[SCORE]", 759,
		WithTemplate("<image>\n<|eot_{{ messages[0].content[1].text }}|>"))
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Close()
	if _, err := joined.Prompt(1, "id"); err == nil || !strings.Contains(err.Error(), "<|eot_id|>") {
		t.Errorf("a question that completes a special token: %v", err)
	}
	if got, err := joined.Prompt(1, "x"); err != nil || got != "<image>\n<|eot_x|>" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, c := range map[string]struct {
		prompt, answer, placeholder string
		counts                      []int
		want                        string
	}{
		"no score":        {"<image>", "It is 3.", "<image>", []int{1}, "0 times"},
		"two scores":      {"<image>", "[SCORE] [SCORE]", "<image>", []int{1}, "2 times"},
		"score in prompt": {"<image>[SCORE]", "[SCORE]", "<image>", []int{1}, "in the prompt"},
		"no placeholder":  {"x", "[SCORE]", "<image>", []int{1}, "0 times <image> for 1 pictures"},
		"too many":        {"<image><image>", "[SCORE]", "<image>", []int{1}, "2 times <image> for 1 pictures"},
		"in the answer":   {"<image>", "<image>[SCORE]", "<image>", []int{1}, "for 1 pictures"},
		"empty picture":   {"<image>", "[SCORE]", "<image>", []int{0}, "0 tokens"},
		"wrong model":     {"<image>", "[SCORE]", "<|image_pad|>", []int{1}, "does not know"},
		"zero byte":       {"<image>", "[SCORE]\x00", "<image>", []int{1}, "zero byte"},
	} {
		if _, err := p.Encode(c.prompt, c.answer, "<|eot_id|>", c.placeholder, c.counts); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, c.want)
		}
	}
	small := open(t, llava, 700) // fewer rows than the tokenizer has tokens
	if _, err := small.Encode("<|eot_id|><image>", "[SCORE]", "", "<image>", []int{1}); err == nil ||
		!strings.Contains(err.Error(), "no row") {
		t.Errorf("got error %v, want one about rows", err)
	}
}

func TestOpenErrors(t *testing.T) {
	empty := t.TempDir()
	if _, err := Open(empty, "[SCORE]", 9); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("empty directory: %v", err)
	}
	if _, err := Open(llava+"/backbone", " ", 9); err == nil {
		t.Error("blank score token was taken")
	}
	for _, content := range []string{"{", "{}", "[]", `{"added_tokens": 3}`,
		`{"version": "1.0", "model": {"type": "Nothing"}}`} {
		write(t, filepath.Join(empty, "tokenizer.json"), content)
		if _, err := Open(empty, "[SCORE]", 9); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
			t.Errorf("%s: error %v should name the file", content, err)
		}
	}
}

// A checkpoint without a chat template tokenises, reports what is missing, and accepts an external template.
func TestWithoutTemplate(t *testing.T) {
	dir := t.TempDir()
	copyFile(t, llava+"/backbone/tokenizer.json", filepath.Join(dir, "tokenizer.json"))
	p, err := Open(dir, "[SCORE]", 759)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Prompt(1, "q"); err == nil || !strings.Contains(err.Error(), "chat_template.jinja") {
		t.Errorf("got error %v, want the files looked for", err)
	}
	if _, err := p.Encode("<image>\nq", "[SCORE]", "", "<image>", []int{4}); err != nil {
		t.Error(err)
	}
	own, err := Open(dir, "[SCORE]", 759,
		WithTemplate("{{ messages[0].content | length }}:{{ messages[0].content[1].text }}"))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if got, err := own.Prompt(1, "q"); err != nil || got != "2:q" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Keys of tokenizer_config.json that contradict tokenizer.json or are unknown are refused, and the error names them.
func TestTokenizerConfig(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{`{"bos_token": "<|begin_of_text|>", "add_bos_token": true, "legacy": false, "eos_token": {"content": "<|eot_id|>"}}`,
			""},
		{`{"added_tokens_decoder": {"744": {"content": "<image>", "special": true}}, "additional_special_tokens": ` +
			`["<image>", {"content": "<pad>"}]}`, ""},
		{`{"bos_token": "<|begin_of_text|>", "add_bos_token": false}`, "add_bos_token"},
		{`{"eos_token": "<|eot_id|>", "add_eos_token": true}`, "add_eos_token"},
		{`{"pad_token": "<nothing>"}`, "<nothing>"},
		{`{"extra_special_tokens": {"image_token": "<picture>"}}`, "<picture>"},
		{`{"added_tokens_decoder": {"744": {"content": "<image>", "special": true, "lstrip": true}}}`,
			"added_tokens_decoder"},
		{`{"added_tokens_decoder": {"745": {"content": "<image>", "special": true}}}`, "added_tokens_decoder"},
		{`{"split_special_tokens": true}`, "split_special_tokens"},
		{`{"do_lower_case": true}`, "do_lower_case"},
	} {
		dir := t.TempDir()
		copyFile(t, llava+"/backbone/tokenizer.json", filepath.Join(dir, "tokenizer.json"))
		write(t, filepath.Join(dir, "tokenizer_config.json"), c.config)
		p, err := Open(dir, "[SCORE]", 759)
		if err == nil {
			p.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.config, err, c.want)
		}
	}
}

// A template that writes the beginning-of-text token itself does not get a second one. A tokenizer that has the score
// token keeps its id. Truncation in tokenizer.json is not applied.
func TestPublishedHabits(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(llava + "/backbone/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), `"truncation": null`,
		`"truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}`, 1)
	text = strings.Replace(text, `"content": "<pad>"`, `"content": "[SCORE]"`, 1)
	if strings.Count(text, "max_length") != 1 || strings.Count(text, "[SCORE]") != 1 {
		t.Fatal("the fixture is spelled differently now")
	}
	write(t, filepath.Join(dir, "tokenizer.json"), text)
	write(
		t,
		filepath.Join(dir, "tokenizer_config.json"),
		`{"bos_token": {"content": "<|begin_of_text|>"}, "chat_template": "{{ bos_token }}<image>{{ `+
			`messages[0].content[1].text }}"}`,
	)
	p, err := Open(dir, "[SCORE]", 759)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	prompt, err := p.Prompt(1, "What is it?")
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Encode(prompt, "[SCORE]", "<|eot_id|>", "<image>", []int{2})
	if err != nil {
		t.Fatal(err)
	}
	if p.scoreInTokenizer != 745 || got.IDs[0] != 739 || got.IDs[1] != 744 || got.IDs[len(got.IDs)-2] != 759 {
		t.Errorf("score token %d, ids %v", p.scoreInTokenizer, got.IDs)
	}
}

func TestConcurrently(t *testing.T) {
	p := open(t, llava, 759)
	var group sync.WaitGroup
	for k := range 4 {
		group.Go(func() {
			for i := range 25 {
				prompt, err := p.Prompt(1, fmt.Sprintf("question %d", k))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := p.Encode(prompt, "It is [SCORE].", "<|eot_id|>", "<image>", []int{i + 1})
				if err != nil || got.IDs[got.ScoreIndex] != 759 {
					t.Errorf("%v, %v", got, err)
				}
			}
		})
	}
	group.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.ID("a"); err == nil {
		t.Error("closed tokenizer answered")
	}
}

func open(t *testing.T, dir string, scoreID int64) *Processor {
	t.Helper()
	p, err := Open(filepath.Join(dir, "backbone"), "[SCORE]", scoreID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, string(data))
}
