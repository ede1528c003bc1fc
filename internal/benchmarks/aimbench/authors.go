package aimbench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/jsonfile"
	"assay/internal/stats"
)

// The authors' files of an editor, in MODEL/eval. Each is a list with an entry per picture.
const (
	aimClipFile    = "longclip_scores.json"
	aimScoresFile  = "evaluation_scores.json"
	aimBeautyFile  = "aesthetic.json"
	aimEmotionFile = "evaluation_results.json"
	aimVADFiles    = "evaluation_vad_results_" // and the judge's name
	aimACCFile     = "emotion_metrics.json"
	aimDVADFile    = "vad_metrics.json"
)

// noEmotion is what an entry without predicted_emotion predicts. The authors' program counts it as a wrong answer.
const noEmotion = "(none)"

// marks are a judge's sub-scores, in which null is not read as 0.
type marks []float64

// UnmarshalJSON implements json.Unmarshaler.
func (m *marks) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	list, err := protocol.ParseNumbers("sub-scores", raw)
	if err != nil && string(bytes.TrimSpace(raw)) != "[]" {
		return err
	}
	*m = list
	return nil
}

// aimEntry is an entry of any of the lists: each has some of the fields. An absent score is null.
type aimEntry struct {
	Output    string          `json:"edited_filename,omitempty"`
	Name      string          `json:"name,omitempty"`
	Image     string          `json:"image_name,omitempty"`
	Edited    string          `json:"edited_image,omitempty"`
	ClipT     *float64        `json:"longclip_similarity_score,omitempty"`
	Beauty    *float64        `json:"score,omitempty"`
	SC        marks           `json:"sc_scores,omitempty"`
	PQ        marks           `json:"pq_scores,omitempty"`
	GTC       marks           `json:"gtc_scores,omitempty"`
	Target    string          `json:"target_emotion,omitempty"`
	Predicted string          `json:"predicted_emotion,omitempty"`
	Correct   *bool           `json:"is_correct,omitempty"`
	Truth     json.RawMessage `json:"ground_truth_vad,omitempty"`
	Point     json.RawMessage `json:"predicted_vad,omitempty"`
}

func (e aimEntry) output() string {
	for _, name := range []string{e.Output, e.Name, e.Image, e.Edited} {
		if name != "" {
			return name
		}
	}
	return ""
}

// readEditor reads the authors' files in MODEL/eval; dir is MODEL or MODEL/eval. A folder without eval has no
// components yet.
func (m *aimReader) readEditor(dir string, p *protocol.Problems) error {
	eval, name := filepath.Join(dir, "eval"), protocol.EditorName(dir)
	if name == "eval" {
		eval, name = dir, protocol.EditorName(filepath.Dir(filepath.Clean(dir)))
	}
	j := m.editor(name)
	files, err := os.ReadDir(eval)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		judge, isVAD := strings.CutPrefix(strings.TrimSuffix(f.Name(), ".json"), aimVADFiles)
		known := slices.Contains([]string{aimClipFile, aimScoresFile, aimBeautyFile, aimEmotionFile}, f.Name())
		if !known && !(isVAD && strings.HasSuffix(f.Name(), ".json")) {
			continue
		}
		var entries []aimEntry
		if err := protocol.ReadJSON(filepath.Join(eval, f.Name()), &entries,
			"a list with an entry per picture"); err != nil {
			return err
		}
		if _, ok := j.by["d_vad"]; isVAD && !ok {
			j.by["d_vad"] = judge
		}
		odd := 0
		for k, e := range entries {
			if f.Name() == aimEmotionFile && e.Predicted == "" { // an answer without an emotion is wrong
				e.Predicted = noEmotion
			}
			if e.Correct != nil && *e.Correct != (e.Predicted == e.Target) {
				odd++
			}
			where := fmt.Sprintf("%s[%d]", filepath.Join(name, f.Name()), k)
			if err := m.readEntry(j, e, where); err != nil {
				p.Add(where, "%v", err)
			}
		}
		if odd > 0 {
			j.notes = append(j.notes, fmt.Sprintf("is_correct of %d entries of %s contradicts their emotions: these count",
				odd, f.Name()))
		}
	}
	return m.checkTotals(j, eval)
}

func (m *aimReader) readEntry(j *aimPredictions, e aimEntry, where string) error {
	samples := m.outputs[e.output()]
	if len(samples) != 1 {
		return fmt.Errorf("%q is the output of %d samples: want the output of one, such as %q", e.output(),
			len(samples),
			m.output(0))
	}
	i := samples[0]
	single := func(v *float64) []float64 {
		if v == nil {
			return nil
		}
		return []float64{*v}
	}
	for _, l := range []struct {
		column string
		values []float64
	}{{"sc", e.SC}, {"pq", e.PQ}, {"s_gtc", e.GTC}, {"clip_t", single(e.ClipT)}, {"aesthetic", single(e.Beauty)}} {
		for _, v := range l.values {
			if err := aimBounds[l.column].Check(l.column, v); err != nil {
				return err
			}
		}
		if len(l.values) > 0 {
			if err := m.setValues(j, i, l.column, l.values, where); err != nil {
				return err
			}
		}
	}
	if e.Predicted != "" && e.Predicted != "error" && e.Predicted != "exception" {
		if e.Target != "" && e.Target != m.samples[i].emotion {
			return fmt.Errorf("target_emotion is %q, but %q in the data", e.Target, m.samples[i].emotion)
		}
		if err := m.setEmotion(j, i, e.Predicted, where); err != nil {
			return err
		}
	}
	return m.readPoint(j, i, e, where)
}

// readPoint reads a predicted point. As in overall_auto.py, an entry with an error does not count, nor one that lacks
// the target or a number.
func (m *aimReader) readPoint(j *aimPredictions, i int, e aimEntry, where string) error {
	if e.Point == nil || e.Truth == nil {
		return nil
	}
	var point map[string]json.RawMessage
	if json.Unmarshal(e.Point, &point) == nil {
		_, failed := point["error"]
		for _, name := range []string{"valence", "arousal", "dominance"} {
			_, there := point[name]
			failed = failed || !there
		}
		if failed {
			return nil
		}
	}
	truth, err := parseVAD(e.Truth)
	if err != nil {
		return fmt.Errorf("ground_truth_vad is %s: %w", protocol.Brief(e.Truth), err)
	} else if truth != m.samples[i].vad {
		return fmt.Errorf("ground_truth_vad is %s, but %v in the data", protocol.Brief(e.Truth), m.samples[i].vad)
	}
	v, err := parseVAD(e.Point)
	if err != nil {
		return fmt.Errorf("predicted_vad: %w", err)
	}
	return m.setVAD(j, i, v, where)
}

// checkTotals compares the totals that the authors' programs wrote with those of their lists.
func (m *aimReader) checkTotals(j *aimPredictions, eval string) error {
	means := j.means(stats.UpTo(len(m.samples)))
	for _, file := range []string{aimACCFile, aimDVADFile} {
		var totals map[string]float64
		if err := protocol.ReadJSON(filepath.Join(eval, file), &totals, "{NUMBER: VALUE}"); errors.Is(err,
			fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		for field, column := range map[string]string{"emotion_accuracy": "acc", "macro_f1_score": "f1",
			"vad_avg_distance": "d_vad"} {
			if v, ok := totals[field]; ok && !(math.Abs(v-means[column]) <= 1e-4) {
				j.notes = append(j.notes, fmt.Sprintf(
					"%s of the authors' %s is %v, but %.4f from their list: the list counts",
					field, file, v, means[column]))
			}
		}
	}
	slices.Sort(j.notes)
	return nil
}

// WriteAuthors implements Writer: MODEL/eval with the files that the authors' programs write.
func (j *aimPredictions) WriteAuthors(dir string) error {
	name := j.name
	name = cmp.Or(name, "editor")
	eval := filepath.Join(dir, name, "eval")
	if err := os.MkdirAll(eval, 0o777); err != nil {
		return err
	}
	lists := map[string][]aimEntry{}
	number := func(v float64) *float64 { return &v }
	judge := strings.ReplaceAll(j.by["d_vad"], "/", "_")
	judge = cmp.Or(judge, "judge")
	for i := range j.samples {
		output := j.output(i)
		if v := j.columns["clip_t"][i]; !math.IsNaN(v) {
			lists[aimClipFile] = append(lists[aimClipFile], aimEntry{Output: output, ClipT: number(v)})
		}
		if v := j.columns["aesthetic"][i]; !math.IsNaN(v) {
			lists[aimBeautyFile] = append(lists[aimBeautyFile], aimEntry{Name: output, Beauty: number(v)})
		}
		if j.sub["sc"][i] != nil || j.sub["pq"][i] != nil || j.sub["s_gtc"][i] != nil {
			lists[aimScoresFile] = append(lists[aimScoresFile], aimEntry{Output: output, SC: j.sub["sc"][i],
				PQ: j.sub["pq"][i], GTC: j.sub["s_gtc"][i]})
		}
		if e := j.emotion[i]; e != "" {
			right := e == j.samples[i].emotion
			if e == noEmotion {
				e = ""
			}
			lists[aimEmotionFile] = append(lists[aimEmotionFile], aimEntry{Image: output, Target: j.samples[i].emotion,
				Predicted: e, Correct: &right})
		}
		if v := j.point[i]; !math.IsNaN(v[0]) {
			file := aimVADFiles + judge + ".json"
			lists[file] = append(lists[file], aimEntry{Edited: output, Target: j.samples[i].emotion,
				Truth: vadJSON(j.samples[i].vad),
				Point: vadJSON(v)})
		}
	}
	for file, list := range lists {
		if err := jsonfile.Write(filepath.Join(eval, file), list); err != nil {
			return err
		}
	}
	return j.writeTotals(eval)
}

func (j *aimPredictions) writeTotals(eval string) error {
	means := j.means(stats.UpTo(len(j.samples)))
	round := func(v float64) float64 { return math.Round(1e4*v) / 1e4 }
	if n := j.used("acc"); n > 0 {
		if err := jsonfile.Write(filepath.Join(eval, aimACCFile),
			map[string]any{"emotion_accuracy": round(means["acc"]),
				"macro_f1_score": round(means["f1"]), "valid_images": n}); err != nil {
			return err
		}
	}
	if n := j.used("d_vad"); n > 0 {
		return jsonfile.Write(filepath.Join(eval, aimDVADFile),
			map[string]any{"vad_avg_distance": round(means["d_vad"]),
				"valid_images": n})
	}
	return nil
}

func vadJSON(v [3]float64) json.RawMessage {
	raw, err := json.Marshal(map[string]float64{"valence": v[0], "arousal": v[1], "dominance": v[2]})
	if err != nil {
		return nil // finite numbers: parseVAD checked them
	}
	return raw
}
