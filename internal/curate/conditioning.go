package curate

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/jsonfile"
	"assay/internal/scoring"
)

// Conditioning writes labels with the score of each edit in words.
type Conditioning struct {
	Template  Template
	Low, High float64  // score01 that map to 0 and 10 before the cuts into levels
	Layouts   []string // names of [Layouts]
	Copy      bool     // copy pictures instead of linking to them
	Balance   bool     // repeat examples, so that all levels that occur are equally frequent
	Seed      uint64   // of the draw of examples that are repeated once more than others of their level

	// Tokens counts the tokens of a prompt, begin and end included. nil: [MinClipTokens], for layouts whose trainers
	// use CLIP's text encoder.
	Tokens func(text string) (int, error)
}

// ScoreRange returns the lowest and the highest score01 of a table.
func ScoreRange(scores scoring.Scores) (low, high float64, err error) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, line := range scores.Lines {
		if line.Error == "" {
			low, high = min(low, line.Value.Score01), max(high, line.Value.Score01)
		}
	}
	if low > high {
		return 0, 0, errors.New("there are no scores")
	}
	if high == low {
		return 0, 0, fmt.Errorf("all scores are %g", low)
	}
	return low, high, nil
}

// ConditioningResult counts what [Conditioning.Write] did.
type ConditioningResult struct {
	Rows     int
	Labelled int
	Failed   int    // listed in failed.jsonl
	Reason   string // why the first of them failed
	Levels   [5]int // rows of the levels one to five
	Written  int    // examples: the labelled rows, including repetitions
	Cut      int    // labelled rows whose prompts have more than [ClipTokens] tokens, and lose words of the score
}

// Write creates the folder out: images/, labels in the chosen layouts, and failed.jsonl with the unusable rows. If no
// row is usable, it creates no folder and returns the first reason.
func (c *Conditioning) Write(t *data.Table, scores scoring.Scores, out string) (*ConditioningResult, error) {
	r := &ConditioningResult{Rows: t.Len()}
	err := atomicfile.WriteDir(out, func(dir string) (err error) {
		var examples []RewardLabel
		failed := []scoring.FailedRow{}
		pictures := newPictures(t, dir, c.Copy)
		for i := range t.Len() {
			row, err := t.Read(i)
			var e RewardLabel
			if err == nil {
				if err = scores.Err(i); err == nil {
					score := 10 * ((scores.Lines[i].Value.Score01 - c.Low) / (c.High - c.Low))
					e, err = pictures.label(i, &row, c.Template.Text(row.Instruction, score), score, "source", "edit")
				}
				if err != nil {
					err = t.At(i, err)
				}
			}
			if err != nil {
				failed = append(failed, scoring.FailedRow{Row: i, ID: row.ID, Error: err.Error()})
				continue
			}
			examples = append(examples, e)
			r.Levels[e.Level-1]++
		}
		r.Labelled, r.Failed = len(examples), len(failed)
		if r.Failed > 0 {
			r.Reason = failed[0].Error
		}
		if len(examples) == 0 && r.Failed > 0 {
			return fmt.Errorf("none of %d rows can be used; the first: %s", r.Rows, r.Reason)
		}
		if r.Cut, err = c.cut(examples); err != nil {
			return err
		}
		if balance(examples); c.Balance {
			examples = repeated(examples, c.Seed)
		}
		r.Written = len(examples)
		if err := c.checkSources(examples); err != nil {
			return err
		}
		for _, l := range c.Layouts {
			if err := Layouts[l](dir, out, examples); err != nil {
				return err
			}
		}
		if err := writeCard(dir, c.Layouts); err != nil {
			return err
		}
		if slices.Equal(slices.Compact(slices.Clone(c.Layouts)), []string{"parquet"}) { // it contains the pictures
			if err := os.RemoveAll(filepath.Join(dir, "images")); err != nil {
				return err
			}
		}
		return jsonfile.WriteLines(filepath.Join(dir, "failed.jsonl"), failed)
	})
	return r, err
}

// severalLayouts are the layouts that support several sources per edit.
var severalLayouts = []string{"diffsynth", "parquet"}

// checkSources refuses edits with several sources in layouts that support only one.
func (c *Conditioning) checkSources(examples []RewardLabel) error {
	n := 0
	for _, e := range examples {
		n += min(len(e.References), 1)
	}
	for _, l := range c.Layouts {
		if n > 0 && !slices.Contains(severalLayouts, l) {
			return exit.Usagef("layout %s has one source per edit, but %d of %d edits have several: %s have all of them", l, n,
				len(examples), strings.Join(severalLayouts, " and "))
		}
	}
	return nil
}

// cut counts the prompts whose score CLIP's text encoder would truncate.
func (c *Conditioning) cut(examples []RewardLabel) (n int, err error) {
	count := c.Tokens
	if count == nil {
		count = func(text string) (int, error) { return MinClipTokens(text), nil }
		if !slices.ContainsFunc(c.Layouts, func(l string) bool { return slices.Contains(clipLayouts, l) }) {
			return 0, nil
		}
	}
	_, end, _ := strings.Cut(string(c.Template), "{instruction}")
	if !marks.MatchString(strings.ReplaceAll(end, "{instruction}", "")) { // the score is not at the end
		return 0, nil
	}
	for _, e := range examples {
		tokens, err := count(e.Prompt)
		if err != nil {
			return n, fmt.Errorf("row %q: %w", e.ID, err)
		}
		if tokens > ClipTokens {
			n++
		}
	}
	return n, nil
}

// ClipTokens is the context length of CLIP's text encoders, begin and end tokens included. Stable Diffusion truncates
// longer prompts.
const ClipTokens = 77

// clipPieces matches the pieces into which CLIP's tokenizer splits a text before BPE. Combining marks count as
// letters, since the tokenizer joins them if Unicode has the composed letter.
var clipPieces = regexp.MustCompile(`'s|'t|'re|'ve|'m|'ll|'d|[\p{L}\p{M}]+|\p{N}|[^\s\p{Z}\p{L}\p{M}\p{N}]+`)

// MinClipTokens is a lower bound of the tokens of a text with any CLIP vocabulary: one for each word, digit and run
// of marks, and two for begin and end.
func MinClipTokens(text string) int {
	return 2 + len(clipPieces.FindAllStringIndex(strings.ToLower(text), -1))
}

// clipLayouts are the layouts of trainers with CLIP's text encoder: InstructPix2Pix and MagicBrush, also in diffusers.
var clipLayouts = []string{"diffusers", "instructpix2pix", "magicbrush", "parquet"}
